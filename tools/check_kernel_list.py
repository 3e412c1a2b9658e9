#!/usr/bin/env python3
"""Checks that src/ops/kernels.inc matches the kernel files, and that its names are well formed and in order."""
import re
import sys

from tree import code_only, files, report, root_argument

LIST = "src/ops/kernels.inc"
ISA_TABLE = "cmake/isa.cmake"
# KERNEL(op, (format, ...), isa, ...) or KERNEL_FROM(folder, op, (format, ...), isa, ...)
FIELD = r"\s*([^,()]*?)\s*,"
KERNEL = re.compile(r"^[ \t]*KERNEL(?:_FROM\(" + FIELD + r"|\()" + FIELD + r"\s*\(([^()]*)\)\s*," + FIELD, re.MULTILINE)
WORD = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*$")


def formats(root):
    """The enumerators of Format, which kernels.inc names."""
    text = code_only((root / "include/tern/types.h").read_text(encoding="utf-8"))
    match = re.search(r"enum class Format[^{]*\{([^}]*)\}", text)
    return set(re.findall(r"[a-z]\w*", match[1])) if match else set()


def main():
    root = root_argument()
    if not (root / LIST).is_file():
        return report("check_kernel_list", [f"{LIST} is missing"], "")
    text = code_only((root / LIST).read_text(encoding="utf-8"))
    isas = set(re.findall(r"^tern_(?:cuda_)?isa\((\w+)", (root / ISA_TABLE).read_text(encoding="utf-8"), re.MULTILINE))
    known_formats = formats(root)
    problems, listed, closed = [], set(), {}
    seen = set()
    for match in KERNEL.finditer(text):
        folder, op, of_line, isa = match.groups()
        folder = folder or op
        where = f"{LIST}:{text.count(chr(10), 0, match.start(2)) + 1}: {op}.{isa}"
        for word in (folder, op, isa):
            if not WORD.match(word):
                problems.append(f"{where}: '{word}' is not snake_case")
        if isa not in isas:
            problems.append(f"{where}: {ISA_TABLE} has no row {isa}")
        suffix = "cu" if isa.startswith("cuda_") else "cpp"
        if not (root / f"src/ops/{folder}/{isa}.{suffix}").is_file():
            problems.append(f"{where}: src/ops/{folder}/{isa}.{suffix} does not exist")
        listed.add((folder, isa))
        for fmt in (word.strip() for word in of_line.split(",")):
            name = f"{op}.{fmt}.{isa}"
            if name in seen:
                problems.append(f"{where}: {name} is listed twice")
            seen.add(name)
            if fmt not in known_formats:
                problems.append(f"{where}: include/tern/types.h has no format {fmt}")
            if (op, fmt) in closed:
                problems.append(f"{where}: {name} comes after {closed[op, fmt]}, which must be the last")
            if isa == "reference":
                closed[op, fmt] = name
    for op, fmt in sorted({tuple(name.split(".")[:2]) for name in seen} - set(closed)):
        problems.append(f"{LIST}: {op}.{fmt} has no reference")
    calls = len(re.findall(r"^[ \t]*KERNEL(?:_FROM)?\(", text, re.MULTILINE))
    if calls == 0 or calls != len(KERNEL.findall(text)):
        problems.append(f"{LIST}: {calls} lines, {len(KERNEL.findall(text))} of them understood")
    for name in files(root):
        match = re.match(r"src/ops/(\w+)/(\w+)\.(cpp|cu)$", name)
        if match and match[2] in isas and (match[1], match[2]) not in listed:
            problems.append(f"{name}: no line in {LIST}")
    return report("check_kernel_list", problems, f"{len(seen)} kernels")


if __name__ == "__main__":
    sys.exit(main())
