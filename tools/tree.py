"""Shared by the structural checks: the files of the tree, their includes, and the report of a check."""
import re
import sys
from pathlib import Path

FOLDERS = ("include", "src", "apps", "python", "examples", "tests", "tools", "scripts", "cmake", "bench", ".ci")
CPP_SUFFIXES = {".h", ".cpp", ".c", ".cu", ".cuh", ".inc"}
LEAF = re.compile(r"((^|/)test|_test|_fuzz|^src/ops/.*/(bench|selftest))\.(cpp|cu)$")
ISA_FILE = re.compile(r"^src/ops/[^/]+/(scalar|x86_\w+|arm_\w+)\.cpp$")

_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def files(root):
    """Paths relative to the root, sorted, of every file in the folders that hold sources."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            if path.is_file() and "__pycache__" not in relative.parts:
                yield relative.as_posix()


def cpp_files(root):
    return [name for name in files(root) if Path(name).suffix in CPP_SUFFIXES or name.endswith(".h.in")]


def includes(root, name):
    """(line, is_quoted, what) of every include of a file."""
    text = (root / name).read_text(encoding="utf-8")
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1] == '"', match[2]


def code_only(text):
    """The text with comments and string literals replaced by spaces; line numbers stay the same."""
    return _COMMENT_OR_TEXT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def texts(text):
    """(line, literal) of every string literal."""
    for match in _COMMENT_OR_TEXT.finditer(text):
        if match[0].startswith('"'):
            yield text.count("\n", 0, match.start()) + 1, match[0]


def report(check, problems, fine):
    """Prints the problems, or one line when there are none; returns the exit status."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{check}: {len(problems)} problem(s)")
        return 1
    print(f"{check}: {fine}")
    return 0


def root_argument():
    """The tree to check: the first argument, or else the tree of this file."""
    return Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
