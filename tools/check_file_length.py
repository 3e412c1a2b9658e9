#!/usr/bin/env python3
"""Checks that the first line of every source file says what it is for, and that long files say why they are long."""
import re
import sys
from pathlib import Path

from tree import CPP_SUFFIXES, files, report, root_argument

NEEDS_REASON, LIMIT = 500, 800
REASON = "long because"  # in one of the first ten lines
TOP_LEVEL = ("CMakeLists.txt", "Makefile", ".clang-tidy")

# How the first line begins, by kind of file. `#include` and `#pragma` are not comments.
FIRST_LINE = {
    "cpp": re.compile(r"(//|/\*)\s*\S"),
    "python": re.compile(r'(#(?!!)|""")\s*\S'),
    "hash": re.compile(r"#(?!!)\s*\S"),
    "linker": re.compile(r"/\*\s*\S"),
}


def kind_of(name):
    path = Path(name)
    if path.suffix in CPP_SUFFIXES or name.endswith(".h.in"):
        return "cpp"
    if path.suffix in (".py", ".pyi"):
        return "python"
    if path.suffix == ".map":
        return "linker"
    if path.suffix in (".sh", ".cmake") or name.endswith((".cmake.in", ".pc.in")):
        return "hash"
    if path.name in ("CMakeLists.txt", "Makefile", ".clang-tidy"):
        return "hash"
    return None


def is_script(text):
    return text.startswith("#!")


def main():
    root = root_argument()
    problems, count = [], 0
    for name in [*files(root), *(name for name in TOP_LEVEL if (root / name).is_file())]:
        kind = kind_of(name)
        if kind is None and Path(name).suffix:
            continue
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if kind is None and not is_script(text):
            continue
        count += 1
        lines = text.splitlines()
        first = lines[1:2] if is_script(text) else lines[:1]
        if not first or not FIRST_LINE[kind or "hash"].match(first[0]):
            problems.append(f"{name}: the first line does not say what the file is for")
        if len(lines) > LIMIT:
            problems.append(f"{name}: {len(lines)} lines; the limit is {LIMIT}")
        elif len(lines) > NEEDS_REASON and not any(REASON in line for line in lines[:10]):
            problems.append(f'{name}: {len(lines)} lines; above {NEEDS_REASON} its head says "{REASON} ..."')
    return report("check_file_length", problems, f"{count} files")


if __name__ == "__main__":
    sys.exit(main())
