#!/usr/bin/env python3
"""Counts what an op and a layout cost, and fails if one costs more than its budget.

    an op       its folder src/ops/<op>, its public header in include/tern, and three other files (EVERY_OP)
    a layout    its header in src/format, its row in layouts.cpp, and the enumerator of the public enum

A file costs if its code spells the name: comments, tests and generated files do not count, nor do texts that only
contain an op's name. A file that calls an op because of what it does, such as quantize(), is a use and no cost of adding
the op: USES lists these with their reasons. --list NAME shows what an op, a layout or a format touches; of an op that is
not there, what it will need.
"""
import re
import sys
from pathlib import Path

from check_layers import OP_SEES, op_of
from tree import LEAF, code_only, cpp_files, report, root_argument, texts

OPS, LAYOUT_TABLE, FORMAT_TABLE = "src/ops/ops.h", "src/format/layouts.cpp", "src/format/formats.h"
LAYOUT_ENUM, FORMAT_ENUM = "include/tern/layout.h", "include/tern/types.h"
EVERY_OP = {
    "src/ops/ops.h": "its include, and its OP line in TERN_OPS",
    "src/ops/kernels.inc": "a KERNEL line for each file of loops, best first, the reference last",
    "include/tern/tern.h": "the include of its public header, if that is a new one",
}  # fmt: skip
# What a new op's folder has: "cpu.cpp" stands for all that are like it.
FOLDER = {
    "{op}.h": "the contract as algebra, Params, and the record OpTraits (src/ops/op.h says what it has)",
    "{op}.cpp": "checks of problem and arguments, made once for all kernels",
    "reference.cpp": "the slow truth",
    "simd_table.h": "what an instruction set hands over",
    "generic.h": "the loops, once over any set of vector words",
    "cpu.cpp": "the driver: threads, and problems that the loops do not take",
    "scalar.cpp": "the loops without vectors; x86_avx2.cpp, arm_neon.cpp, cuda_sm75.cu as kernels come",
    "test.cpp": "against reference and limits",
    "selftest.cpp": "the problems on which `tern selftest` compares kernels",
    "bench.cpp": "what bounds it, for `tern bench`",
    "c.abi": "its C ABI, from which tools/c_abi.py writes structs, checks and functions",
}  # fmt: skip
FAMILY = "what problems of its family have in common: tests, selftests and benches of several folders use it"
# (file, the ops or layouts that its code spells, why this is no cost of adding one)
USES = [
    ("src/plan/quantize.cpp", "ternary_quantize ternary_dequantize", "quantize() and dequantize()"),
    ("src/plan/quality.cpp", "ternary_quantize ternary_dequantize", "compares floats with what their codes give"),
    ("src/plan/quality.h", "ternary_quantize ternary_dequantize", "the loops that it borrows"),
    ("src/plan/plan.cpp", "ternary_quantize", "PlanRows, which write_model and gpu_quantize run"),
    ("src/plan/plan_rows.h", "ternary_quantize", "PlanRows, which write_model and gpu_quantize run"),
    ("src/plan/gpu_quantize.cpp", "ternary_quantize", "quantizes a host matrix on a GPU, piece by piece"),
    ("src/plan/gpu_quantize.h", "ternary_quantize", "quantizes a host matrix on a GPU, piece by piece"),
    ("src/model/quantized_rows.cpp", "ternary_quantize", "quantizes the matrices of a model"),
    ("src/model/gpu_feed.cpp", "ternary_quantize", "quantizes the matrices of a model on a GPU"),
    ("src/model/gpu_feed.h", "ternary_quantize", "quantizes the matrices of a model on a GPU"),
    ("src/model/write_model.cpp", "ternary_quantize", "quantizes the matrices of a model"),
    ("src/api/linear.cpp", "linear", "linear() and BitLinear"),
    ("src/api/precision_report.cpp", "linear", "measures what precision a layer needs"),
    ("include/tern/linear.h", "activation_quantize", "linear quantizes its activations; their public header is one"),
    ("src/api/c_linear.cpp", "linear", "linear's arrays of matrices, which its description only names"),
    ("src/api/c_plan.h", "linear", "linear's arrays of matrices, which its description only names"),
    ("src/api/c_layout.cpp", "i2_s_x86_128 i2_s_arm_64 i2_s_1x4", "which of them a file has is asked for as the order of i2_s"),
    ("src/plan/packed_filters.cpp", "conv2d", "PackedFilters"),
    ("src/api/conv2d.cpp", "conv2d", "BitConv2d and conv2d_quantized()"),
    ("src/api/c_conv2d.cpp", "conv2d", "the size of its output"),
    ("src/lab/conv2d_truth.h", "conv2d", "the truth that the tests of conv2d share"),
    ("src/lab/models.h", "linear conv2d", "the layers of known models"),
    ("src/lab/conv2d_models.cpp", "conv2d", "the layers of known models"),
    ("src/lab/linear_truth.h", "linear", "the truth that tests of linear and of packed weights share"),
    ("src/lab/linear_models.cpp", "linear", "the layers of known models"),
    ("src/lab/blas_baselines.h", "linear", "BLAS beside linear"),
    ("src/lab/blas_baselines.cpp", "linear", "BLAS beside linear"),
    ("src/lab/conv2d_baselines.h", "conv2d", "other libraries beside conv2d"),
    ("src/lab/conv2d_baselines.cpp", "conv2d", "other libraries beside conv2d"),
    ("src/lab/cublas_baselines.h", "linear", "cuBLAS beside linear"),
    ("src/lab/cublas_baselines.cpp", "linear", "cuBLAS beside linear"),
    ("src/lab/affine_problems.h", "affine_quantize affine_dequantize", FAMILY),
    ("src/lab/fake_problems.h", "fake_quantize fake_quantize_backward", FAMILY),
    ("src/lab/qparams_problems.h", "choose_qparams dynamic_quantize", FAMILY),
    ("apps/cli/quantize.cpp", "ternary_quantize", "the command that quantizes"),
    ("apps/cli/arguments.h", "ternary_quantize", "the op of the command that quantizes"),
    ("apps/cli/bench.cpp", "ternary_quantize", "--from, which is for it only"),
    ("apps/cli/dequantize.cpp", "ternary_dequantize", "the command that dequantizes"),
    ("apps/cli/model_arguments.cpp", "tl1 tl2 i2_s_x86_128 hf_packed", "help of options that only these layouts have"),
    ("apps/cli/convert.cpp", "hf_packed tq1_0", "examples in its help"),
    ("apps/cli/quantize.cpp", "hf_packed", "an example in its help"),
    ("apps/cli/write_model.cpp", "tl2", "--later-tl2, which is for tl2 only"),
    ("include/tern/model.h", "i2", "the default of a ModelPlan"),
    ("src/model/interpret_tensors.cpp", "hf_packed", "recognizes the names that Hugging Face gives to tensors"),
    ("src/model/convert_matrix.cpp", "i2_s_x86_128", "stands for any layout with one scale, to fit scales to one"),
    ("src/format/tl2.cpp", "tl1", "pairs of tl2 are those of tl1"),
]  # fmt: skip


def enumerators(root, path, enum):
    """The enumerators of a public enum, in order."""
    file = root / path
    text = code_only(file.read_text(encoding="utf-8")) if file.is_file() else ""
    match = re.search(r"enum class " + enum + r"\b[^{]*\{([^}]*)\}", text)
    return re.findall(r"[a-z]\w*", match[1]) if match else []


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Tree:
    """The production files of a tree, each as code and as the set of its string literals."""

    def __init__(self, root):
        self.root = root
        self.code, self.texts = {}, {}
        for name in cpp_files(root):
            if not name.startswith(("src/", "include/", "apps/")) or LEAF.search(name):
                continue
            text = (root / name).read_text(encoding="utf-8")
            if "generated" in text.partition("\n")[0].lower():
                continue
            self.code[name] = code_only(text)
            self.texts[name] = {literal[1:-1] for _, literal in texts(text)}

    def ops(self):
        """{name: type} of TERN_OPS."""
        return dict(re.findall(r"\bOP\((\w+), (\w+)\)", self.code.get(OPS, "")))

    def layouts(self):
        """{enumerator: (its word, its header)} of the rows of the table."""
        found = {}
        text = (self.root / LAYOUT_TABLE).read_text(encoding="utf-8") if LAYOUT_TABLE in self.code else ""
        for struct, layout, word in re.findall(r'row<([\w:]+)>\(\{\.layout = Layout::(\w+), \.name = "([^"]+)"', text):
            scope, _, name = struct.rpartition("::")
            found[layout] = (word, f"src/format/{scope or snake(name)}.h")
        return found

    def public_header(self, struct):
        for name, code in self.code.items():
            if name.startswith("include/tern/") and re.search(r"\bstruct (TERN_API )?" + struct + r"\s*\{", code):
                return name
        return None

    def naming_op(self, op, struct):
        """The files whose code spells an op: its name or its type, or a text that is its name."""
        spelled = re.compile(rf"\b({op}|{struct})\b")
        return [name for name in self.code if spelled.search(self.code[name]) or op in self.texts[name]]

    def naming_layout(self, layout, word, header, formats):
        """The files whose code spells a layout: its enumerator, its word in a text, or its header or the scope in it."""
        stem = Path(header).stem
        scope = "" if stem in formats else rf"|\b{stem}::|\bnamespace tern::{stem}\b"
        spelled = re.compile(rf"\bLayout::{layout}\b{scope}")
        in_text = re.compile(r"(?<![\w.-])" + re.escape(word) + r"(?![\w.]*\w)")
        for name in self.code:
            includes = f"format/{stem}.h" in self.texts[name] and stem not in formats
            said = word not in formats and any(in_text.search(text) for text in self.texts[name])
            if name == header or includes or said or spelled.search(self.code[name]):
                yield name


def uses_of(path):
    for file, words, _ in USES:
        if file == path:
            yield from words.split()


def costs_of_op(tree, op, struct):
    """(the files outside the folder that adding the op touches, those that use it)."""
    touched, uses = [], []
    header = tree.public_header(struct)
    for name in tree.naming_op(op, struct):
        if op_of(name) == op:
            continue
        if op in uses_of(name) or op in OP_SEES.get(op_of(name), ()):
            uses.append(name)
        else:
            touched.append(name)
    return ([header] if header and header not in touched else []) + touched, uses


def op_problems(tree, op, struct):
    touched, _ = costs_of_op(tree, op, struct)
    header = tree.public_header(struct)
    if not header:
        yield f"{OPS}: include/tern has no struct {struct}, the public type of {op}"
    for name in touched:
        if name != header and name not in EVERY_OP:
            yield (f"{name}: names the op {op}. An op costs its folder, its public header, {', '.join(EVERY_OP)}; a use "
                   "of it for what it does goes into USES of tools/check_cost.py, with the reason")


def layout_problems(tree, layout, word, header, formats):
    own = {header, Path(header).with_suffix(".cpp").as_posix(), LAYOUT_TABLE, LAYOUT_ENUM}
    if header not in tree.code:
        yield f"{LAYOUT_TABLE}: {header}, the header of {layout}, does not exist"
    for name in tree.naming_layout(layout, word, header, formats):
        if name not in own and layout not in uses_of(name):
            yield (f"{name}: names the layout {layout}. A layout costs {header}, a row of {LAYOUT_TABLE} and the "
                   "enumerator; ask the table instead, or explain the use in USES of tools/check_cost.py")


def stale_uses(tree, ops, layouts, formats):
    """Entries of USES whose file no longer spells the name."""
    for file, words, _ in USES:
        for word in words.split():
            if word in ops:
                there = file in tree.naming_op(word, ops[word])
            else:
                there = word in layouts and file in tree.naming_layout(word, *layouts[word], formats)
            if not there:
                yield f"tools/check_cost.py: USES has {file} for {word}, which it does not name any more"


def show(tree, name):
    """Prints what an op, a layout or a format touches, or what a new op will."""
    ops, layouts, formats = tree.ops(), tree.layouts(), enumerators(tree.root, FORMAT_ENUM, "Format")
    if name in layouts:
        word, header = layouts[name]
        print(f"the layout {name}:")
        for path in tree.naming_layout(name, word, header, formats):
            kind = "use" if name in uses_of(path) else "cost"
            print(f"  {kind:8}{path}")
        print(f"  cost    {LAYOUT_ENUM}: the enumerator")
    if name in formats:
        print(f"the format {name}: a row of {FORMAT_TABLE}, the enumerator in {FORMAT_ENUM}, codes of its own in "
              f"src/format/{name}.h; and its kernels:")
        for path, code in tree.code.items():
            if re.search(rf"\bFormat::{name}\b", code):
                print(f"          {path}")
    if name in ops:
        touched, uses = costs_of_op(tree, name, ops[name])
        print(f"the op {name}: src/ops/{name}, and")
        for path in touched:
            print(f"  cost    {path}")
        for path in uses:
            print(f"  use     {path}")
    if name not in layouts and name not in formats and name not in ops:
        print(f"there is no {name}. As an op it will touch:")
        for file, what in FOLDER.items():
            print(f"  new     src/ops/{name}/{file.format(op=name)}: {what}")
        struct = "".join(part.capitalize() for part in name.split("_"))
        print(f"  new     include/tern/{name}.h: {struct} with Problem and Args, extern template class Plan<{struct}>")
        for path, what in EVERY_OP.items():
            print(f"  touched {path}: {what}")
        print("As a layout it will touch:")
        print(f"  new     src/format/{name}.h: the bit picture, and a struct that inherits LayoutTraits")
        print(f"  touched {LAYOUT_TABLE}: its include and its row")
        print(f"  touched {LAYOUT_ENUM}: the enumerator, last in Layout")
        print("As a format it will touch:")
        print(f"  new     src/format/{name}.h: the bit picture, pack() and read(), if no other format has these codes")
        print(f"  touched {FORMAT_TABLE}: its include and its row")
        print(f"  touched {FORMAT_ENUM}: the enumerator, last in Format")


def main():
    listed = None
    if "--list" in sys.argv:
        at = sys.argv.index("--list")
        listed = sys.argv[at + 1]
        del sys.argv[at : at + 2]
    root = root_argument()
    tree = Tree(root)
    if listed:
        show(tree, listed)
        return 0
    ops, layouts, formats = tree.ops(), tree.layouts(), enumerators(root, FORMAT_ENUM, "Format")
    problems = [] if ops else [f"{OPS}: no ops are listed"]
    for layout in enumerators(root, LAYOUT_ENUM, "Layout"):
        if layout not in layouts:
            problems.append(f"{LAYOUT_TABLE}: no row for {layout} is understood")
    for op, struct in ops.items():
        problems += op_problems(tree, op, struct)
    for layout, (word, header) in layouts.items():
        problems += layout_problems(tree, layout, word, header, formats)
    problems += stale_uses(tree, ops, layouts, formats)
    return report("check_cost", problems, f"{len(ops)} ops and {len(layouts)} layouts cost no more than they may")


if __name__ == "__main__":
    sys.exit(main())
