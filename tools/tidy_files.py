#!/usr/bin/env python3
"""Lists the files that clang-tidy has to check, and records those that passed.

usage: tidy_files.py list COMPILE_COMMANDS [--all] | tidy_files.py record

`list` prints the files, each followed by a zero byte: those whose content is not in .ci/clang_tidy_passed, and for each
such header one file that includes it, preferably its own source. With --all, or when the rules changed, it lists all
files. Kernel files are instances of one loop for an instruction set each, so only those of dot and every op's scalar
are listed. `record` writes the hashes of the current contents to .ci/clang_tidy_passed. Hashes of contents, unlike
commits, stay valid in any history.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

RECORD = Path(".ci/clang_tidy_passed")
WANTED = re.compile(r"(src|apps)/(?!.*(/|_)(test|fuzz)\.cpp$)(?!ops/(?!dot/)\w+/(x86|arm)_\w+\.cpp$).*\.cpp$")
RULES = ".clang-tidy"


def contents():
    """{path: hash of its content} of the files that clang-tidy reads, from the working tree."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "include", "src", "apps", RULES],
                            check=True, capture_output=True, text=True).stdout.split("\n")  # fmt: skip
    paths = sorted(p for p in set(listed) if p.endswith((".cpp", ".h", ".inc", RULES)) and os.path.isfile(p))
    hashes = subprocess.run(["git", "hash-object", "--stdin-paths"], input="\n".join(paths), check=True,
                            capture_output=True, text=True).stdout.split()  # fmt: skip
    return dict(zip(paths, hashes, strict=True))


def passed():
    lines = RECORD.read_text(encoding="utf-8").splitlines() if RECORD.exists() else []
    return {tuple(line.split(" ", 1)) for line in lines}


def to_read(commands, everything):
    files = sorted(f for f in {os.path.relpath(c["file"]) for c in json.loads(Path(commands).read_text(encoding="utf-8"))}
                   if WANTED.match(f))  # fmt: skip
    known = passed()
    changed = {path for path, content in contents().items() if (content, path) not in known}
    if everything or RULES in changed:
        return files
    includes = {f: set(re.findall(r'#include "([^"]+)"', Path(f).read_text(encoding="utf-8"))) for f in files}
    chosen = set(changed)
    for header in (f for f in changed if f.endswith((".h", ".inc"))):
        names = {re.sub(r"^(src|include|apps/cli)/", "", header), os.path.basename(header)}
        users = [f for f, names_in in includes.items() if names & names_in]
        own = [f for f in users if os.path.splitext(f)[0] == os.path.splitext(header)[0]]
        chosen.update((own or users)[:1])
    return [f for f in files if f in chosen]


def main(arguments):
    if arguments == ["record"]:
        lines = sorted(f"{content} {path}" for path, content in contents().items())
        RECORD.write_text("\n".join(sorted(lines, key=lambda line: line.split(" ", 1)[1])) + "\n", encoding="utf-8")
        return 0
    if len(arguments) in (2, 3) and arguments[0] == "list" and arguments[2:] in ([], ["--all"]):
        sys.stdout.write("".join(f"{f}\0" for f in to_read(arguments[1], bool(arguments[2:]))))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
