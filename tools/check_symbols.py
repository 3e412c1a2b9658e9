#!/usr/bin/env python3
"""Checks that a kernel file defines one global symbol, and that libtern.so exports only tern:: and tern_ names.

A second global symbol in a file compiled for AVX2 may be an inline function. The linker may keep that copy for the
whole library, and a machine without AVX2 would run it.
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from tree import ISA_FILE, report

ROOT = Path(__file__).resolve().parent.parent
OURS = re.compile(r"tern_|_Z(T[VTISCv]|GV|Th\w*_)?N[KVr]*4tern")  # mangled: tern::name, its vtable, typeinfo, guards


def isa_objects(build):
    """The objects of the kernel files, relative to the build folder, from its compile commands."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = Path(entry["file"])
        if source.is_relative_to(ROOT) and ISA_FILE.match(source.relative_to(ROOT).as_posix()):
            yield entry["output"] if "output" in entry else re.search(r" -o (\S+)", entry["command"])[1]


def global_symbols(path, *options):
    """(type, mangled name) of every global symbol that a file defines."""
    text = subprocess.run(["nm", "--defined-only", *options, path], check=True, capture_output=True, text=True).stdout
    return [match.groups() for match in re.finditer(r"^[0-9a-f]* *(\S) (\S+)$", text, re.MULTILINE)]


def readable(symbols):
    """The symbols as C++ writes them."""
    lines = "".join(f"{kind} {name}\n" for kind, name in symbols)
    return subprocess.run(["c++filt"], input=lines, check=True, capture_output=True, text=True).stdout.splitlines()


def object_problems(path):
    symbols = global_symbols(path, "-g")
    if len(symbols) == 1 and symbols[0][0] not in "WVu":
        return []
    listing = ", ".join(readable(symbols[:10])) or "none"
    return [f"{path}: {len(symbols)} global symbols instead of one of its own: {listing}"]


def library_problems(path):
    foreign = [symbol for symbol in global_symbols(path, "-D") if not OURS.match(symbol[1])]
    return [f"{path}: exports {name}" for name in readable(foreign)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", type=Path, metavar="BUILD", help="print the kernel objects of a build and stop")
    parser.add_argument("--objects", type=Path, metavar="BUILD", help="a debug build whose kernel objects to check")
    parser.add_argument("--object", type=Path, action="append", default=[], help="one object to check")
    parser.add_argument("--library", type=Path, help="the shared library to check")
    options = parser.parse_args()
    if options.list:
        print(*isa_objects(options.list), sep="\n")
        return 0
    objects = list(options.object)
    if options.objects:
        objects += [options.objects / name for name in isa_objects(options.objects)]
        if not objects:
            return report("check_symbols", [f"{options.objects} compiles no kernel file"], "")
    problems = [problem for path in objects for problem in object_problems(path)]
    if options.library:
        problems += library_problems(options.library)
    return report("check_symbols", problems, f"{len(objects)} kernel objects, {options.library or 'no library'}")


if __name__ == "__main__":
    sys.exit(main())
