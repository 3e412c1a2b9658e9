#!/usr/bin/env python3
"""Checks that the tests and files that documents name in backquotes exist."""
import re
import sys

from tree import cpp_files, report, root_argument

TEST = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
NAMED_TEST = re.compile(r"`([A-Z]\w+)\.(\*|[A-Z]\w+)`")
NAMED_FILE = re.compile(r"`((?:include|src|apps|examples|tests|tools|scripts|cmake|bench|docs)/[\w./-]*\w)`")


def main():
    root = root_argument()
    tests = set()
    for name in cpp_files(root):
        for suite, test in TEST.findall((root / name).read_text(encoding="utf-8")):
            tests |= {(suite, test), (suite, "*")}
    problems, count = [], 0
    for page in [*sorted((root / "docs").rglob("*.md")), *(root / name for name in ("README.md", "CONTRIBUTING.md"))]:
        if not page.is_file():
            continue
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            where = f"{page.relative_to(root).as_posix()}:{number}"
            for named in NAMED_TEST.findall(line):
                count += 1
                if named not in tests:
                    problems.append(f"{where}: there is no test {'.'.join(named)}")
            for named in NAMED_FILE.findall(line):
                count += 1
                if not (root / named).exists():
                    problems.append(f"{where}: there is no {named}")
    return report("check_docs", problems, f"{count} tests and files named")


if __name__ == "__main__":
    sys.exit(main())
