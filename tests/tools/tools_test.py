#!/usr/bin/env python3
"""Tests the tools and scripts: each structural check passes a good tree and fails on each kind of bad one.

long because each tool has its own small tree to be tested on.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

GOOD = {
    "include/tern/types.h": "// Words.\n#include <cstdint>\nenum class Format : int { i2, s2 };\n",
    "src/base/status.h": '// Status.\n#include <string>\n#include "tern/types.h"\n',
    "src/base/options.cpp": "// Reads the environment.\nauto v = std::getenv(name);\n",
    "src/simd/avx2.h": "// Words of AVX2.\n#include <immintrin.h>\n",
    "src/ops/kernels.inc": "// The list.\nKERNEL(quant, (i2), x86_avx2, Table, .needs = 1)\n"
                           "KERNEL(quant, (i2), reference, Table)\n",
    "src/ops/quant/x86_avx2.cpp": '// AVX2.\n#include <cstdint>\n#include "simd/avx2.h"\n',
    "src/ops/quant/reference.cpp": '// Slow truth.\n#include <vector>\n#include "base/status.h"\n',
    "src/ops/quant/test.cpp": '// Test.\n#include "lab/selftest.h"\nauto v = getenv("HOME");\n',
    "src/ops/quant/bench.cpp": '// Bench.\n#include "lab/selftest.h"\n',
    "src/lab/selftest.h": "// Selftest.\n",
    "src/plan/plan.cpp": '// Plan.\n#include "ops/kernels.inc"\n// getenv is not called here\n',
    "apps/cli/main.cpp": '// CLI.\n#include <CLI/CLI.hpp>\n#include "lab/selftest.h"\n#include "tern/types.h"\n',
    "cmake/isa.cmake": "# Rows.\ntern_isa(reference \".*\")\ntern_isa(x86_avx2 \"x86_64\" -mavx2)\n",
    "scripts/demo": "#!/bin/sh\n# Shows.\n",
}  # fmt: skip


class Tree(unittest.TestCase):
    def run_check(self, check, changes):
        """(exit status, output) of a check on the good tree with some files changed, or removed where None."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**GOOD, **changes}.items():
                if text is not None:
                    path = Path(folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, ROOT / "tools" / f"{check}.py", folder], capture_output=True,
                                  text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def passes(self, check, changes=None):
        status, output = self.run_check(check, changes or {})
        self.assertEqual((status, output.count("\n")), (0, 1), output)

    def fails(self, check, changes, says):
        status, output = self.run_check(check, changes)
        self.assertEqual(status, 1, output)
        self.assertIn(says, output)


class Layers(Tree):
    def refuses(self, name, text, says):
        self.fails("check_layers", {name: text}, says)

    def test_good_tree(self):
        self.passes("check_layers")

    def test_room_above(self):
        self.refuses("src/base/status.h", '// S.\n#include "plan/plan.h"\n', "no file of this tree")
        self.fails("check_layers", {"src/plan/plan.h": "// P.\n", "src/base/status.h": '// S.\n#include "plan/plan.h"\n'},
                   "src/base/status.h:2: room 0 (src/base) does not see room 4")  # fmt: skip

    def test_room_beside(self):
        self.fails("check_layers", {"src/io/npy.h": "// N.\n", "src/ops/quant/reference.cpp": '// R.\n#include "io/npy.h"\n'},
                   "does not see room 3 (src/io")  # fmt: skip

    def test_unknown_room(self):
        self.refuses("src/utils/x.h", "// X.\n", "src/utils/x.h: src has no such room")

    def test_leaf_is_included_by_nobody(self):
        self.refuses("src/plan/plan.cpp", '// P.\n#include "ops/quant/test.cpp"\n', "is a leaf")

    def test_cli_sees_no_inside(self):
        for name in ("main.cpp", "bench.cpp", "selftest.cpp"):
            self.refuses(f"apps/cli/{name}", '// M.\n#include "base/status.h"\n', "apps/cli does not see src/base")

    def test_public_header_with_third_party_type(self):
        self.refuses("include/tern/types.h", "// T.\n#include <fmt/format.h>\n", "a public header includes only")
        self.refuses("include/tern/types.h", '// T.\n#include "base/status.h"\n', "room -1")

    def test_standard_header_in_kernel_file(self):
        self.refuses("src/ops/quant/x86_avx2.cpp", "// A.\n#include <algorithm>\n", "<algorithm> reaches the kernel file")

    def test_standard_header_behind_kernel_file(self):
        self.refuses("src/simd/avx2.h", "// A.\n#include <cmath>\n", "src/simd/avx2.h:2: <cmath> reaches")
        self.refuses("src/ops/quant/x86_avx2.cpp", '// A.\n#include "tern/types.h"\n#include "base/status.h"\n',
                     "<string> reaches")  # fmt: skip

    def test_second_reader_of_the_environment(self):
        self.refuses("src/plan/plan.cpp", '// P.\nauto x = std::getenv("TERN_X");\n', "only src/base/options.cpp")

    def test_option_of_the_command(self):
        """Only in string literals of the library; comments, the laboratory and tests may name options."""
        says = "src/plan/plan.cpp:3: \"x; --drop it\" names an option"
        self.refuses("src/plan/plan.cpp", '// P.\n/* "a" */ // --drop\nauto x = "x; --drop it";\n', says)
        self.passes("check_layers", {"src/plan/plan.cpp": '// P: "--drop".\nfor (; k > 0; --k) "a -- b";\n',
            "src/ops/quant/bench.cpp": '// B.\nauto x = "--from";\n',
            "src/lab/selftest.h": '// S.\nauto x = "--shape";\n', "src/plan/plan_test.cpp": '// T.\n"--drop";\n'})  # fmt: skip

    def test_library_with_one_home(self):
        self.refuses("src/plan/plan.cpp", "// P.\n#include <hwloc.h>\n", "only by src/device/topology.cpp")


class Calls(unittest.TestCase):
    """check_calls.py of a build of three small files, one of which calls a function of the two others."""

    def check(self, caller, definer, unity=False):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            texts = {caller: "int f(); int g(); int h() { return f() + g(); }", definer: "int f() { return 1; }",
                     "src/base/g.cpp": "int g() { return 2; }"}  # fmt: skip
            commands = []
            for i, (name, text) in enumerate(texts.items()):
                source = root / name
                source.parent.mkdir(parents=True, exist_ok=True)
                source.write_text(text + "\n", encoding="utf-8")
                if unity:
                    (root / f"unity_{i}.cxx").write_text(f'#include "{source}"\n', encoding="utf-8")
                    source = root / f"unity_{i}.cxx"
                commands.append({"directory": folder, "file": str(source), "output": f"{i}.o"})
                subprocess.run(["g++", "-c", source, "-o", root / f"{i}.o"], check=True)
            (root / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
            done = subprocess.run([sys.executable, ROOT / "tools/check_calls.py", folder, folder], capture_output=True,
                                  text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def test_calls_downwards(self):
        self.assertEqual(self.check("src/api/a.cpp", "src/model/m.cpp"),
                         (0, "check_calls: 2 calls between 3 objects go to rooms below\n"))  # fmt: skip

    def test_calls_upwards(self):
        for unity in (False, True):
            status, output = self.check("src/model/m.cpp", "src/api/a.cpp", unity)
            self.assertEqual(status, 1, output)
            self.assertIn("src/model/m.cpp or a file beside it calls f(): room 6 (src/model) does not see room 8", output)

    def test_calls_beside(self):
        self.assertIn("does not see room 3 (src/io", self.check("src/ops/quant/a.cpp", "src/io/npy.cpp")[1])
        self.assertIn("quant does not see other", self.check("src/ops/quant/a.cpp", "src/ops/other/b.cpp")[1])

    def test_no_objects(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "compile_commands.json").write_text("[]")
            done = subprocess.run([sys.executable, ROOT / "tools/check_calls.py", folder], capture_output=True, text=True,
                                  check=False)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn("no objects of this tree are built there", done.stdout)


class FileLength(Tree):
    def test_good_tree(self):
        self.passes("check_file_length")

    def test_first_line(self):
        for name, text in {"src/base/x.h": "#pragma once\n", "src/base/x.cpp": "\n// Late.\n", "scripts/demo": "#!/bin/sh\n",
                           "src/base/y.h": "", "tools/x.py": "import sys\n"}.items():  # fmt: skip
            self.fails("check_file_length", {name: text}, f"{name}: the first line does not say")

    def test_long_files(self):
        body = "int x;\n"
        self.passes("check_file_length", {"src/base/x.h": "// X.\n" + body * 499})
        self.fails("check_file_length", {"src/base/x.h": "// X.\n" + body * 500}, "501 lines; above 500")
        self.passes("check_file_length", {"src/base/x.h": "// X, long because it is a table.\n" + body * 500})
        self.fails("check_file_length", {"src/base/x.h": "// X, long because.\n" + body * 800}, "801 lines; the limit")
        self.passes("check_file_length", {"src/base/x.h": "// Generated by tools/x.py from y; change that.\n" + body * 800})


class KernelList(Tree):
    def refuses(self, lines, says):
        self.fails("check_kernel_list", {"src/ops/kernels.inc": "// The list.\n" + lines}, says)

    def test_good_tree(self):
        self.passes("check_kernel_list")

    def test_file_without_a_line(self):
        self.refuses("KERNEL(quant, (i2), reference, Table)\n", "src/ops/quant/x86_avx2.cpp: no line in")

    def test_line_without_a_file(self):
        self.fails("check_kernel_list", {"src/ops/quant/x86_avx2.cpp": None}, "src/ops/quant/x86_avx2.cpp does not exist")

    def test_names(self):
        good = GOOD["src/ops/kernels.inc"]
        self.refuses("KERNEL(Quant, (i2), reference, T)\n" + good, "'Quant' is not snake_case")
        self.refuses("KERNEL(quant, (i9), reference, T)\n" + good, "no format i9")
        self.refuses("KERNEL(quant, (i2), x86_mmx, T)\n" + good, "has no row x86_mmx")
        self.refuses("KERNEL(quant, (i2), x86_avx2, T)\n" + good, "listed twice")
        self.refuses("KERNEL(quant, (s2, i2), x86_avx2, T)\n" + good, "quant.i2.x86_avx2 is listed twice")
        self.refuses("KERNEL(quant, (i2, s2), reference, T)\n" + good, "quant.i2.x86_avx2 comes after quant.i2.reference")
        self.refuses("KERNEL(quant i2)\n" + good, "3 lines, 2 of them understood")

    def test_file_in_another_folder(self):
        shared = {"src/ops/kernels.inc": GOOD["src/ops/kernels.inc"] + "KERNEL_FROM(shared, other, (i2), reference, T)\n"}
        self.passes("check_kernel_list", {**shared, "src/ops/shared/reference.cpp": "// Shared.\n"})
        self.fails("check_kernel_list", shared, "src/ops/shared/reference.cpp does not exist")

    def test_reference_is_last(self):
        self.refuses("KERNEL(quant, (i2), reference, T)\nKERNEL(quant, (i2), x86_avx2, T)\n", "which must be the last")
        self.refuses("KERNEL(quant, (i2), x86_avx2, T)\n", "quant.i2 has no reference")


class Docs(Tree):
    TEST = "// Test.\nTEST(Quant, Rounds) {}\n"

    def test_names_of_what_is_there(self):
        page = "`Quant.Rounds`, `Quant.*` and `src/lab/selftest.h`\n"
        self.passes("check_docs", {"docs/page.md": page, "src/ops/quant/test.cpp": self.TEST})

    def test_names_of_what_is_not(self):
        for page, says in {
            "`Quant.Rounds`\n": "docs/page.md:1: there is no test Quant.Rounds",
            "\n`Quant.*`\n": "docs/page.md:2: there is no test Quant.*",
            "`src/lab/bench.h`\n": "there is no src/lab/bench.h",
        }.items():
            self.fails("check_docs", {"docs/page.md": page}, says)


class Symbols(unittest.TestCase):
    def check(self, source, *flags, library=False):
        """(exit status, output) of check_symbols on the object of a source text."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.so" if library else "x.o")
            mode = ["-shared", "-fPIC"] if library else ["-c"]
            subprocess.run(["c++", "-x", "c++", "-std=c++20", *flags, *mode, "-o", path, "-"], input=source, text=True,
                           check=True)  # fmt: skip
            done = subprocess.run([sys.executable, ROOT / "tools/check_symbols.py", "--library" if library else "--object",
                                   path], capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def test_one_symbol(self):
        status, output = self.check("namespace { int f(int x) { return x; } } namespace tern { int g(int x) { return f(x); } }")
        self.assertEqual(status, 0, output)

    def test_two_symbols(self):
        status, output = self.check("int f(int x) { return x; } int g(int x) { return f(x); }")
        self.assertEqual(status, 1, output)
        self.assertIn("2 global symbols", output)

    def test_inline_function(self):
        status, output = self.check("inline int f(int x) { return x; } int g(int x) { return f(x); }", "-O0")
        self.assertEqual(status, 1, output)
        self.assertIn("W f(int)", output)

    def test_library(self):
        ours = "namespace tern { struct S { virtual ~S(); }; S::~S() {} } extern \"C\" int tern_f() { return 1; }"
        status, output = self.check(ours, library=True)
        self.assertEqual(status, 0, output)
        status, output = self.check(ours + " namespace fmt { int leak() { return 2; } }", library=True)
        self.assertEqual(status, 1, output)
        self.assertIn("exports T fmt::leak()", output)


class JunitCounts(unittest.TestCase):
    def count(self, body):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(f"<testsuite>{body}</testsuite>")
            file.flush()
            return subprocess.run([sys.executable, ROOT / "tools/junit_counts.py", file.name], capture_output=True,
                                  text=True, check=False)  # fmt: skip

    def test_each_kind(self):
        done = self.count('<testcase name="a" status="run"/><testcase name="b" status="fail"><failure message="Failed"/>'
                          "<system-out>the reason</system-out></testcase>"
                          '<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'
                          '<testcase name="d" status="notrun"><skipped message="Unable to find executable"/></testcase>')
        self.assertEqual(done.stdout, "1 2 1\n", done.stderr)
        self.assertIn("failed: b\nthe reason", done.stderr)
        self.assertIn("failed: d\nUnable to find executable", done.stderr)

    def test_broken_file(self):
        self.assertEqual(self.count("<testcase").returncode, 1)


def a_record(op, kernel, problem, threads=1, us=10.0, share=0.5, limit="streaming read", baselines=(), device="cpu"):
    return {"op": op, "kernel": kernel, "device": device, "problem": problem, "threads": threads, "weights": "cold",
            "median_us": us, "bytes": 2_000_000, "gb_per_s": 200.0, "gops": 4000.0,
            "limit": {"name": limit, "value": 400.0, "share": share},
            "baselines": [{"name": name, "speedup": speedup} for name, speedup in baselines]}  # fmt: skip


def a_machine(name, date, **more):
    return {"device": "cpu", "name": name, "architecture": "x86_64", "capabilities": ["x86_avx2"], "usable_threads": 2,
            "caches": [], "memory_bytes": 1 << 30, "commit": "abc", "date": date, **more}  # fmt: skip


def results():
    """Made-up results: a CPU with a model, quantizing measured twice, a GPU beside cuBLAS, and peers."""
    layer = {"rows": 30, "cols": 64, "n": [10, 10, 10], "m": 1, "dtype": "i8", "math": "w2a8", "granularity": "tensor",
             "format": "i2", "y": "f32"}
    quantize = {"rows": 64, "cols": 256, "dtype": "f32", "scheme": "absmax", "granularity": "group:128", "format": "i2"}
    gpu = {**layer, "rows": 32, "n": [32], "y": "bf16"}
    model = {"name": "bitnet-2b", "m": 1, "x_dtype": "i8", "threads": 2, "bytes": 1000, "milliseconds": 2.0,
             "tokens_per_s": 500.0, "floor_tokens_per_s": 625.0, "limit": "streaming read", "share": 0.8}
    engines = [("Tern f32", 1.0), ("llama.cpp TQ2_0", 2.5)]
    return {
        "old.json": {"machine": a_machine("Box", "2026-01-01"), "records": [
            a_record("ternary_quantize", "ternary_quantize.i2.x86_avx2", quantize, threads=2, share=0.111),
            a_record("ternary_quantize", "ternary_quantize.i2.x86_avx2", quantize, threads=1, share=0.222)]},
        "new.json": {"machine": a_machine("Box", "2026-01-02"), "models": [model], "records": [
            a_record("linear", "linear.i2.x86_avx2", layer, threads=2),
            a_record("ternary_quantize", "ternary_quantize.i2.x86_avx2", quantize, threads=2, share=0.333)]},
        "gpu.json": {"machine": a_machine("Card", "2026-01-03", device="cuda:0", host="Box", driver="1", cuda="13.0",
                                          multiprocessors=8), "records": [
            a_record("linear", "linear.i2.cuda_sm80", {**gpu, "m": m}, share=0.75, limit="int8 matrix peak",
                     baselines=[("cublas bf16", 2.0 * m)], device="cuda:0") for m in (64, 128)]},
        "peers.json": {"machine": a_machine("Box", "2026-01-04"), "rounds": 3, "repetitions": 2, "records": [
            {"engine": engine, "setting": "as it comes", "n": 64, "k": 256, "m": 1, "weights": "cold", "threads": 2,
             "median_us": 5.0, "tern_is_faster": faster} for engine, faster in engines]},
    }  # fmt: skip


class NumbersPage(unittest.TestCase):
    README = "# Box\n<!-- figures: made by tools/numbers_page.py -->\n<!-- end of figures -->\nlast line\n"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "bench/results").mkdir(parents=True)
        (self.root / "README.md").write_text(self.README, encoding="utf-8")
        self.put(results())

    def put(self, files):
        for name, report in files.items():
            (self.root / "bench/results" / name).write_text(json.dumps(report), encoding="utf-8")

    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "tools/numbers_page.py", *arguments, self.root],
                              capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def writes(self):
        status, output = self.run_tool()
        self.assertEqual(status, 0, output)
        return (self.root / "docs/figures.md").read_text(encoding="utf-8")

    def fails(self, says, *arguments):
        status, output = self.run_tool(*arguments)
        self.assertEqual(status, 1, output)
        self.assertIn(says, output)

    def test_tables_and_their_commands(self):
        page = self.writes()
        quantize, _, rest = page.partition("`tern bench ternary_quantize --shape 64x256 --scheme absmax --granularity group:128 "
                                           "--kernel ternary_quantize.i2.x86_avx2 --threads 1,2`")  # fmt: skip
        self.assertTrue(rest, page)
        self.assertIn("| 64 x 256 | 10.0 us, 200, 22.2 % | 10.0 us, 200, 33.3 % |", rest)
        self.assertNotIn("11.1 %", page)  # the newer figure of the same problem is shown
        self.assertIn("`tern bench linear --model bitnet-2b --kernel linear.i2.x86_avx2 --threads 2`", quantize)
        self.assertIn("| bitnet-2b | 2.00 ms | 500 |", quantize)
        self.assertIn("| 10+10+10 x 64 | 10.0 us | 200 |", quantize)
        self.assertIn("`tern bench linear --shape 32x64 --m M --y bf16 --kernel linear.i2.cuda_sm80 --device cuda:0 "
                      "--baselines`", page)  # fmt: skip
        self.assertIn("| 64 | 10.0 us | 4.00 | 0.400 | 75.0 % | 128.00 |", page)
        self.assertIn("`scripts/peers --threads 2 --rounds 3 --repetitions 2 --shapes 64x256`", page)
        self.assertIn("2026-01-02, commit abc, [new.json](../bench/results/new.json)", page)

    def test_convolutions(self):
        problem = {"images": 1, "image": [64, 56, 56], "filters": [64, 64, 3, 3], "groups": 1, "stride": [1, 1],
                   "dilation": [1, 1], "padding": [1, 1, 1, 1], "dtype": "i8", "order": "nhwc", "math": "w2a8",
                   "granularity": "tensor", "format": "i2", "y": "f32", "y_order": "nhwc"}  # fmt: skip
        wide = {**problem, "image": [3, 224, 224], "filters": [64, 3, 7, 7], "stride": [2, 2], "padding": [3, 3, 3, 3]}
        tall = {**problem, "filters": [64, 64, 5, 1], "padding": [2, 2, 0, 0], "stride": [2, 1]}
        network = {"name": "resnet18", "m": 1, "x_dtype": "i8", "threads": 2, "bytes": 1000, "operations": 3.6e9,
                   "milliseconds": 2.0, "images_per_s": 500.0, "floor_images_per_s": 625.0, "limit": "int8 peak",
                   "share": 0.8}  # fmt: skip
        records = [a_record("conv2d", "conv2d.i2.x86_avx2", p, threads=2, limit="int8 peak", baselines=[("onednn s8", 2.0)])
                   for p in (problem, wide, tall)]  # fmt: skip
        report = {"machine": a_machine("Box", "2026-01-05"), "models": [network], "records": records}
        self.put({"conv2d.json": report})
        page = self.writes()
        self.assertIn("`tern bench conv2d --model resnet18 --kernel conv2d.i2.x86_avx2 --threads 2`", page)
        self.assertIn("| resnet18 | 2.00 ms | 500 | 2.25 | 80.0 % |", page)
        self.assertIn("`tern bench conv2d --shape SHAPE --image IMAGE --stride STRIDE --kernel conv2d.i2.x86_avx2 "
                      "--threads 2 --baselines`", page)  # fmt: skip
        self.assertIn("| 64 x 3 x 7 x 7 | 224x224 | 2 | 10.0 us |", page)
        self.assertIn("| 64 x 64 x 5 x 1 | 56x56 | 2x1 | 10.0 us |", page)
        tall["padding"] = [2, 1, 0, 0]
        self.put({"conv2d.json": report})
        self.assertIn("| 64 x 64 x 5 x 1 | 56x56 | 2x1 | 2,1,0,0 | 10.0 us |", self.writes())
        network["threads"] = 3
        self.put({"conv2d.json": report})
        self.fails("conv2d.json: no record is of a convolution of resnet18")

    def test_whole_commands(self):
        command = {"command": "tern quantize w.npy -o w.npz", "shape": [64, 256], "threads": 2, "rounds": 9,
                   "input_bytes": 65536, "output_bytes": 4608, "read_ms": 20.0, "quantize_ms": 30.0, "write_ms": 50.0,
                   "whole_ms": 150.0, "parts_ms": 100.0, "ratio": 1.5}  # fmt: skip
        self.put({"quantize.json": {"machine": a_machine("Box", "2026-01-05"), "records": [], "commands": [command]}})
        page = self.writes()
        self.assertIn("2026-01-05, commit abc, [quantize.json](../bench/results/quantize.json). Medians of 9 rounds", page)
        self.assertIn("| `tern quantize w.npy -o w.npz` | 64.0 KiB | 4.50 KiB | 2 | 20.0 ms | 30.0 ms | 50.0 ms | 150 ms | "
                      "1.50 |", page)  # fmt: skip

    def test_readme(self):
        self.writes()
        readme = (self.root / "README.md").read_text(encoding="utf-8")
        self.assertTrue(readme.startswith("# Box\n<!-- fig") and readme.endswith("end of figures -->\nlast line\n"), readme)
        self.assertIn("|  | Box, 2 threads | Card |", readme)
        self.assertIn("| 200 GB/s, 33.3 % of the streaming read | - |", readme)
        self.assertIn("| 500 tokens/s, 80.0 % of the streaming read | - |", readme)
        self.assertIn("one token, times as fast as | 2.5 llama.cpp TQ2_0 | - |", readme)
        self.assertIn("many tokens, times as fast as | - | 128 tokens: 256.0 cublas bf16 |", readme)

    def test_plots(self):
        self.writes()
        plots = {path.name: path.read_text(encoding="utf-8") for path in (self.root / "docs/plots").iterdir()}
        self.assertEqual(sorted(plots), ["baselines-card.svg", "peers-box-2-threads.svg", "share-box-2-threads.svg",
                                         "share-card.svg"])  # fmt: skip
        for text in plots.values():
            xml.etree.ElementTree.fromstring(text)
        self.assertIn(">0.40<", plots["peers-box-2-threads.svg"])  # 1 / 2.5
        self.assertIn(">75 %<", plots["share-card.svg"])

    def test_processors_of_the_same_name_have_columns_of_their_own(self):
        other = results()["new.json"]
        other["machine"]["cpu"] = {"vendor": "Acme", "family": 26, "model": 2}
        self.put({"other.json": other})
        self.writes()
        readme = (self.root / "README.md").read_text(encoding="utf-8")
        self.assertIn("|  | Box (family 26 model 2), 2 threads | Box, 2 threads | Card |", readme)

    def test_check_notices_what_changed(self):
        self.fails("docs/figures.md: not what bench/results says", "--check")
        self.assertFalse((self.root / "docs").exists())
        page = self.writes()
        self.assertEqual(self.run_tool("--check"), (0, "numbers_page: 6 files are up to date\n"))
        for name in ("docs/figures.md", "README.md", "docs/plots/share-card.svg"):
            path = self.root / name
            path.write_text(path.read_text(encoding="utf-8").replace("75", "76").replace("33.3", "99.9"), encoding="utf-8")
            self.fails(f"{name}: not what", "--check")
        (self.root / "docs/plots/share-gone.svg").write_text("<svg/>", encoding="utf-8")
        self.fails("docs/plots/share-gone.svg: not what", "--check")
        self.assertEqual(self.writes(), page)
        self.assertEqual(self.run_tool("--check")[0], 0)
        self.assertFalse((self.root / "docs/plots/share-gone.svg").exists())
        changed = results()["new.json"]
        changed["records"][1]["limit"]["share"] = 0.444
        self.put({"new.json": changed})
        self.fails("README.md: not what", "--check")

    def test_what_cannot_be_understood(self):
        (self.root / "bench/results/broken.json").write_text("{", encoding="utf-8")
        self.fails("broken.json: no result of")
        (self.root / "bench/results/broken.json").unlink()
        bad = results()["new.json"]
        bad["models"][0]["x_dtype"] = "f32"
        self.put({"new.json": bad})
        self.fails("new.json: its models are not those that its records begin")
        del bad["models"], bad["records"][0], bad["records"][0]["limit"]
        self.put({"new.json": bad})
        self.fails("new.json: a record lacks or has something else as 'limit'")
        bad = results()["gpu.json"]
        bad["machine"]["device"] = "cpu"
        self.put({**results(), "gpu.json": bad})
        self.fails("gpu.json: a record of a GPU under a machine that is a CPU")
        self.put(results())
        (self.root / "README.md").write_text("# Box\n", encoding="utf-8")
        self.fails("README.md: needs one line <!-- figures")
        self.assertFalse((self.root / "docs").exists())


class GpuChanges(unittest.TestCase):
    """gpu_changes.py in a made-up repository: the list of changes that no GPU has run."""

    PAGE = "# GPUs\n\n<!-- gpu changes: made by tools/gpu_changes.py -->\n<!-- end of gpu changes -->\n\n## More\n"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.git("init", "--quiet")
        self.commit("start", {"docs/gpu.md": self.PAGE, "src/ops/linear/cuda_x.h": "1", "src/base/a.h": "1"})

    def git(self, *arguments):
        return subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "-C", self.root, *arguments],
                              capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip

    def commit(self, subject, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", subject)
        return self.git("rev-parse", "--short", "HEAD")

    def tool(self, *options):
        done = subprocess.run([sys.executable, ROOT / "tools/gpu_changes.py", *options, self.root], capture_output=True,
                              text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def proof(self, commit, dirty="no"):
        return {"bench/results/nvidia-x-proof.txt": f"commit {commit}\ndirty {dirty}\n"}

    def page(self):
        return (self.root / "docs/gpu.md").read_text()

    def test_commits_by_op(self):
        ran = self.git("rev-parse", "--short", "HEAD")
        self.commit("bench: a proof", self.proof(ran))
        self.assertEqual(self.tool()[0], 0)
        self.assertIn(f"Nothing: all of it is as commit {ran} ran it.", self.page())
        self.commit("base: words", {"src/base/a.h": "2"})
        self.assertEqual(self.tool("--check")[0], 0)
        self.commit("linear: faster", {"src/ops/linear/cuda_x.h": "2", "src/plan/gpu.cpp": "1", "src/plan/gpu_test.cpp": "1"})
        self.assertEqual(self.tool("--check")[0], 0)  # the newest commit could not list itself
        self.commit("quant: another", {"src/ops/quant/a.cu": "1"})
        status, said = self.tool("--check")
        self.assertEqual(status, 1, said)
        self.assertEqual(self.tool()[0], 0)
        self.assertRegex(self.page(), r"\| linear \| `cuda_x.h` \| [0-9-]{10} linear: faster \|")
        self.assertRegex(self.page(), r"\| plan \| `gpu.cpp` \| [0-9-]{10} linear: faster \|")
        self.assertRegex(self.page(), r"\| quant \| `a.cu` \| [0-9-]{10} quant: another \|")
        self.assertTrue(self.page().endswith("## More\n"))
        self.commit("docs: what no GPU ran", {})
        self.assertEqual(self.tool("--check")[0], 0)

    def test_runs(self):
        first = self.git("rev-parse", "--short", "HEAD")
        second = self.commit("linear: faster", {"src/ops/linear/cuda_x.h": "2"})
        self.commit("bench: figures", {"bench/results/nvidia-x.json": json.dumps({"machine": {"commit": first}}),
                                       **self.proof(second, "yes")})  # fmt: skip
        self.tool()
        self.assertIn(f"last ran commit {first}", self.page())  # a run of a dirty tree does not count
        self.commit("bench: proof", self.proof(second))
        self.tool()
        self.assertIn(f"as commit {second} ran it", self.page())

    def test_nothing_known(self):
        status, said = self.tool("--check")
        self.assertEqual((status, "not checked" in said), (0, True), said)
        (self.root / "docs/gpu.md").write_text("# GPUs\n")
        self.assertEqual(self.tool("--check")[0], 1)


class DeviceRun(unittest.TestCase):
    """device_run.sh of a bundle whose test programs are stand-ins."""

    PROGRAM = """#!/bin/sh
for argument; do case $argument in --gtest_output=json:*) report=${argument#--gtest_output=json:} ;; esac; done
[ -z '%(cases)s' ] || printf '{"testsuites": [{"testsuite": [%%s]}]}' '%(cases)s' >"$report"
exit %(code)d
"""
    DEVICES = '{"devices": [{"name": "CPU"}, {"name": "H200", "architecture": "sm_90", "gpu": {"driver": "580"}}]}'

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle = Path(folder.name)
        for name, text in {"commit": "abc1234\n", "dirty": "yes\n"}.items():
            (self.bundle / name).write_text(text)
        self.script("run", (ROOT / "scripts/device_run.sh").read_text())
        self.script("bin/tern", f"#!/bin/sh\necho '{self.DEVICES}'\n")

    def script(self, name, text):
        path = self.bundle / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def program(self, name, *cases, code=0):
        """A stand-in test program whose tests end as given: passed, failed or skipped."""
        said = []
        for i, end in enumerate(cases):
            case = {"name": f"T{i}", "classname": "Suite", "status": "RUN", "result": "COMPLETED"}
            if end == "skipped":
                case["result"] = "SKIPPED"
            if end == "failed":
                case["failures"] = [{"failure": "file.cpp:7\nExpected: a\n  Actual: b"}]
            said.append(json.dumps(case))
        self.script(f"tests/test_{name}", self.PROGRAM % {"cases": ", ".join(said), "code": code})

    def run_tests(self):
        done = subprocess.run([self.bundle / "run", self.bundle / "out", "tests"], capture_output=True, text=True,
                              check=False)  # fmt: skip
        return done.returncode, (self.bundle / "out/proof.txt").read_text().splitlines()

    def test_header_and_counts(self):
        self.program("all", "passed", "passed")
        self.program("some", "passed", "skipped")
        self.program("none", "skipped", "skipped")
        self.program("slow", "failed", code=1)  # the part `tests` leaves it out
        status, proof = self.run_tests()
        self.assertEqual(status, 0)
        self.assertEqual(proof[:2], ["commit abc1234", "dirty yes"])
        self.assertIn("gpu H200, sm_90, driver 580", proof)
        self.assertIn("  passed all *: 2 passed, 0 failed, 0 skipped", proof)
        self.assertIn("  passed some *: 1 passed, 0 failed, 1 skipped", proof)
        self.assertIn("  skipped none *: 0 passed, 0 failed, 2 skipped", proof)
        self.assertEqual(proof[-1], "programs: 2 passed, 0 failed, 1 skipped")
        self.assertEqual(sorted(p.name for p in (self.bundle / "out").iterdir()), ["proof.txt"])

    def test_failures(self):
        self.program("bad", "passed", "failed", code=1)
        self.program("crash", code=139)
        self.program("empty", code=0)
        self.program("quiet", "passed", code=3)  # every test passes, but the exit code is 3
        status, proof = self.run_tests()
        self.assertEqual(status, 1)
        self.assertIn("  FAILED bad *: 1 passed, 1 failed, 0 skipped, ended with 1", proof)
        self.assertIn("    Suite.T1: file.cpp:7 | Expected: a | Actual: b", proof)
        self.assertIn("  FAILED crash *: 0 passed, 0 failed, 0 skipped, ended with 139", proof)
        self.assertIn("  FAILED empty *: 0 passed, 0 failed, 0 skipped", proof)
        self.assertIn("  FAILED quiet *: 1 passed, 0 failed, 0 skipped, ended with 3", proof)
        self.assertEqual(proof[-1], "programs: 0 passed, 4 failed, 0 skipped")


class TidyFiles(unittest.TestCase):
    """tidy_files.py on a repository of a few files."""

    FILES = {
        ".clang-tidy": "Checks: all\n",
        "src/base/words.h": "// Words.\n",
        "src/base/words.cpp": '#include "base/words.h"\n',
        "src/io/reader.cpp": '#include "base/words.h"\n',
        "src/io/test.cpp": "// Test.\n",
        "src/ops/dot/x86_avx2.cpp": "// Loops that clang-tidy reads.\n",
        "src/ops/quant/x86_avx2.cpp": "// The same loops as those of quant/scalar.cpp.\n",
        "src/ops/quant/scalar.cpp": "// Loops.\n",
    }
    ALL = ["src/base/words.cpp", "src/io/reader.cpp", "src/ops/dot/x86_avx2.cpp", "src/ops/quant/scalar.cpp"]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        (self.root / ".ci").mkdir()
        for name, text in self.FILES.items():
            self.write(name, text)
        commands = [{"file": str(self.root / name)} for name in self.FILES if name.endswith(".cpp")]
        self.write("commands.json", json.dumps(commands))

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "tools/tidy_files.py", *arguments], cwd=self.root,
                              capture_output=True, text=True, check=True)  # fmt: skip
        return done.stdout.split("\0")[:-1]

    def listed(self, *arguments):
        return self.run_tool("list", "commands.json", *arguments)

    def test_without_a_record_every_file_is_listed(self):
        self.assertEqual(self.listed(), self.ALL)

    def test_what_passed_is_not_listed_again(self):
        self.run_tool("record")
        self.assertEqual(self.listed(), [])
        self.assertEqual(self.listed("--all"), self.ALL)

    def test_changed_files(self):
        self.run_tool("record")
        self.write("src/io/reader.cpp", "// Changed.\n")
        self.write("src/io/test.cpp", "// Changed, but clang-tidy does not read tests.\n")
        self.assertEqual(self.listed(), ["src/io/reader.cpp"])

    def test_a_changed_header_is_read_through_its_own_source(self):
        self.run_tool("record")
        self.write("src/base/words.h", "// Changed.\n")
        self.assertEqual(self.listed(), ["src/base/words.cpp"])

    def test_changed_rules(self):
        self.run_tool("record")
        self.write(".clang-tidy", "Checks: none\n")
        self.assertEqual(self.listed(), self.ALL)


class StepTimes(unittest.TestCase):
    def test_json_and_table(self):
        with tempfile.TemporaryDirectory() as folder:
            times, written = Path(folder, "times.tsv"), Path(folder, "times.json")
            times.write_text("release\tbuild\t10.0\t250.26\nrelease\ttests\t250\t260\ntidy\tquick\t1\t1.2\n", encoding="utf-8")
            done = subprocess.run([sys.executable, ROOT / "tools/step_times.py", times, "--write", written, "--table"],
                                  capture_output=True, text=True, check=True)  # fmt: skip
            steps = json.loads(written.read_text(encoding="utf-8"))
        self.assertEqual(steps[0], {"part": "release", "step": "build", "seconds": 240.3})
        self.assertEqual(len(steps), 3)
        rows = [line.split() for line in done.stdout.splitlines()[1:]]
        # The longest step first; a step of less than a second only counts in its part.
        self.assertEqual(rows, [["release", "250", "s"], ["build", "240", "s"], ["tests", "10", "s"], ["tidy", "0", "s"]])


class Scripts(unittest.TestCase):
    def test_help_installs_and_builds_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("apt-get", "sudo", "cmake", "ctest"):
                path = Path(folder, tool)
                path.write_text(f"#!/bin/sh\ntouch {folder}/ran\n", encoding="utf-8")
                path.chmod(0o755)
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
            for script in sorted((ROOT / "scripts").iterdir()):
                if script.suffix == ".sh" and script.name != "device_run.sh":
                    continue
                interpreter = sys.executable if script.suffix == ".py" else "bash"
                done = subprocess.run([interpreter, script, "--help"], capture_output=True, text=True, check=False,
                                      env=environment, timeout=60)  # fmt: skip
                self.assertEqual((done.returncode, done.stderr), (0, ""), script)
                self.assertGreater(len(done.stdout), 80, script)
                self.assertFalse(Path(folder, "ran").exists(), script)

    def test_format_fails_without_clang_format_and_at_a_bad_file(self):
        """check_format of scripts/test-deep, with a clang-format that is missing, breaks, warns or is content."""
        says = {None: (1, "clang-format did not run"), "exit 3": (1, "clang-format did not run"),
                "echo src/a.cpp:1:2: warning: code should be clang-formatted >&2": (1, "src/a.cpp"),
                "true": (0, "every file is as clang-format writes it")}  # fmt: skip
        function = 'eval "$(sed -n "/^cpp_sources()/p;/^check_format()/,/^}/p" "$1")"; cd "$2"; PATH=$3; check_format'
        for stand_in, (status, text) in says.items():
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "src").mkdir()
                Path(folder, "src/a.cpp").touch()
                for tool in ("find", "grep", "xargs", "sed", "sort", "sh"):
                    Path(folder, tool).symlink_to(shutil.which(tool))
                if stand_in:
                    Path(folder, "clang-format").write_text(f"#!/bin/sh\n{stand_in}\n", encoding="utf-8")
                    Path(folder, "clang-format").chmod(0o755)
                done = subprocess.run(["bash", "-c", function, "bash", ROOT / "scripts/test-deep", folder, folder],
                                      capture_output=True, text=True, check=False)  # fmt: skip
            self.assertEqual(done.returncode, status, (stand_in, done))
            self.assertIn(text, done.stdout, stand_in)


if __name__ == "__main__":
    unittest.main()
