#!/usr/bin/env python3
"""Checks includes against the rooms of docs/architecture.md, and that the library's texts name no --option.

check_calls.py checks the same rooms against the functions that the compiled files call.
"""
import re
import sys

from tree import ISA_FILE, LEAF, code_only, cpp_files, includes, report, root_argument, texts

# A file may include its own room and rooms with a lower number. include/tern is below room 0.
ROOMS = {
    "include/tern": -1,
    "src/base": 0,
    "src/device": 1,
    "src/memory": 2, "src/format": 2, "src/simd": 2,
    "src/ops": 3, "src/io": 3,
    "src/plan": 4,
    "src/tune": 5, "src/recover": 5, "src/monitor": 5,
    "src/runtime": 6, "src/model": 6,
    "src/engine": 7,
    "src/api": 8, "src/lab": 8,
    "apps/cli": 9, "python": 9, "examples": 9,
}  # fmt: skip
# Rooms that may include only these rooms.
SEES_ONLY = {
    "apps/cli": {"include/tern", "src/lab", "apps/cli"},
    "python": {"include/tern", "python"},
    "examples": {"include/tern", "examples"},
}
# Ops that may use these other ops' folders. Every op may use the files that lie directly in src/ops.
OP_SEES = {
    "affine_dequantize": {"affine"},
    "affine_quantize": {"affine"},
    "choose_qparams": {"affine", "affine_quantize", "ternary_quantize"},
    "dynamic_quantize": {"affine", "affine_quantize", "choose_qparams"},
    "fake_quantize": {"affine", "affine_dequantize", "affine_quantize"},
    "fake_quantize_backward": {"affine", "fake_quantize"},
    "dot": {"activation_quantize"},
    "conv2d": {"activation_quantize", "dot"},
    "linear": {"activation_quantize", "dot"},
}
# Third-party headers that only one file may include, so that the library behind them can be replaced there.
ONE_HOME = {"hwloc.h": "src/device/topology.cpp"}
GENERATED = {"build_config.h": "src/base", "commit.h": "src/lab", "tern/version.h": "include/tern"}
ISA_HEADERS = {"cstdint", "cstddef", "immintrin.h", "smmintrin.h", "tmmintrin.h", "emmintrin.h", "xmmintrin.h",
               "nmmintrin.h", "pmmintrin.h", "arm_neon.h", "arm_sve.h", "arm_acle.h"}
C_STANDARD = {"math.h", "stdbool.h", "stddef.h", "stdint.h"}  # what tern_c.h may use; C++ headers have no dot
ENVIRONMENT_READER = "src/base/options.cpp"
FLAG = re.compile(r"--[a-z]")


def room_of(name):
    for room in ROOMS:
        if name.startswith(room + "/"):
            return room
    return None


def op_of(name):
    """The op in whose folder a file lies, or None."""
    return name.split("/")[2] if name.startswith("src/ops/") and name.count("/") > 2 else None


def why_unseen(name, target):
    """Why a file may not use another one, or None."""
    room, other = room_of(name), room_of(target)
    if other is None:
        return f"{target} lies in no room"
    if room in SEES_ONLY:
        return None if other in SEES_ONLY[room] else f"{room} does not see {other} ({target})"
    if other != room and ROOMS[other] >= ROOMS[room]:
        return f"room {ROOMS[room]} ({room}) does not see room {ROOMS[other]} ({other}: {target})"
    op, other_op = op_of(name), op_of(target)
    if op and other_op and op != other_op and other_op not in OP_SEES.get(op, ()):
        return f"{op} does not see {other_op} ({target}): OP_SEES of tools/check_layers.py says which ops may"
    return None


def resolve(root, name, what):
    """The file an include names, relative to the root, or None."""
    if what in GENERATED:
        return GENERATED[what] + "/" + what.rpartition("/")[2]
    for base in ("include", "src", name.rpartition("/")[0], "."):
        if (root / base / what).is_file():
            return f"{base}/{what}" if base != "." else what
    return None


def check_include(root, name, quoted, what):
    """Why a file may not include this, or None."""
    room = room_of(name)
    target = resolve(root, name, what) if quoted or what.startswith("tern/") else None
    if target is None:
        if quoted:
            return f'"{what}" is no file of this tree'
        if room == "include/tern" and ("/" in what or ("." in what and what not in C_STANDARD)):
            return f"<{what}>: a public header includes only tern/ and the standard library"
        if ONE_HOME.get(what, name) != name and not LEAF.search(name):
            return f"<{what}> is included only by {ONE_HOME[what]}"
        return None
    if LEAF.search(target):
        return f"{target} is a leaf; nothing includes it"
    if LEAF.search(name) or room is None:
        return None
    return why_unseen(name, target)


def isa_problems(root, isa_files):
    """Problems: forbidden standard headers that a kernel file includes, directly or through other headers."""
    found = {}
    for isa_file in isa_files:
        reached, todo = {isa_file}, [isa_file]
        while todo:
            name = todo.pop()
            for line, quoted, what in includes(root, name):
                target = resolve(root, name, what) if quoted else None
                if target is None and not quoted and what not in ISA_HEADERS:
                    found[(name, line)] = f"{name}:{line}: <{what}> reaches the kernel file {isa_file}"
                elif target is not None and target not in reached and (root / target).is_file():
                    reached.add(target)
                    todo.append(target)
    return list(found.values())


def flags_named(root, name):
    """Problems: the library's texts name an option instead of a field; apps/cli/flags.cpp translates fields."""
    if not name.startswith("src/") or name.startswith("src/lab/") or LEAF.search(name):
        return
    for line, text in texts((root / name).read_text(encoding="utf-8")):
        if FLAG.search(text):
            yield f"{name}:{line}: {text} names an option of the command; name the field"


def main():
    root = root_argument()
    names = cpp_files(root)
    problems = []
    for name in names:
        problems += flags_named(root, name)
        if name.startswith("src/") and room_of(name) is None:
            problems.append(f"{name}: src has no such room")
        for line, quoted, what in includes(root, name):
            why = check_include(root, name, quoted, what)
            if why:
                problems.append(f"{name}:{line}: {why}")
        reads = re.search(r"\b(secure_)?getenv\b|\benviron\b", code_only((root / name).read_text(encoding="utf-8")))
        if reads and name != ENVIRONMENT_READER and room_of(name) and not LEAF.search(name):
            problems.append(f"{name}: {reads[0]}: only {ENVIRONMENT_READER} reads the environment")
    problems += isa_problems(root, [name for name in names if ISA_FILE.match(name)])
    return report("check_layers", problems, f"{len(names)} files include only what they may see")


if __name__ == "__main__":
    sys.exit(main())
