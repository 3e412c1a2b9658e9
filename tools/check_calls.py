#!/usr/bin/env python3
"""Checks the rooms of docs/architecture.md against who defines the functions that each compiled file calls.

usage: check_calls.py BUILD [TREE]

An include says only what a file may see declared. A function that is declared in include/tern, or in a lower room, may
be defined in a higher one, and calling it is a call upwards. This reads the objects of a build: a symbol that a file
needs must be defined in its own room or in one that it may see (tools/check_layers.py has the rooms). The command,
Python and examples call only what include/tern and the laboratory declare, so check_layers.py is enough for them.
"""
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from check_layers import SEES_ONLY, room_of, why_unseen
from tree import LEAF, report


def sources(root, source):
    """The files of the tree that an object is made of: one, or those that a unity file includes."""
    path = Path(source)
    found = [path]
    if path.name.startswith("unity_"):
        found = [Path(what) for what in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)]
    return [file.relative_to(root).as_posix() for file in found if file.is_relative_to(root)]


def objects(root, build):
    """{object: one of its sources} for the objects of the rooms that are checked; those of leaves are left out."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        names = [name for name in sources(root, entry["file"])
                 if room_of(name) and room_of(name) not in SEES_ONLY and not LEAF.search(name)]
        output = entry["output"] if "output" in entry else re.search(r" -o (\S+)", entry["command"])[1]
        path = Path(entry["directory"], output)
        if names and path.is_file():
            found[path] = names[0]
    return found


def symbols(path):
    """(defined, needed): the global symbols of an object."""
    text = subprocess.run(["nm", "-g", path], check=True, capture_output=True, text=True).stdout
    defined, needed = set(), set()
    for kind, name in re.findall(r"^[0-9a-f ]{16} (\S) (\S+)$", text, re.MULTILINE):
        (needed if kind == "U" else defined if kind not in "vw" else set()).add(name)
    return defined, needed


def readable(name):
    return subprocess.run(["c++filt", name], check=True, capture_output=True, text=True).stdout.strip()


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["--help"], ["-h"]) else 2
    root = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent.parent).resolve()
    made_of = objects(root, Path(sys.argv[1]))
    with ThreadPoolExecutor() as pool:
        of = dict(zip(made_of, pool.map(symbols, made_of)))
    definers = {}
    for path, (defined, _) in of.items():
        for name in defined:
            definers.setdefault(name, set()).add(made_of[path])
    problems, calls = set(), 0
    for path, (_, needed) in of.items():
        for name in needed & definers.keys():
            calls += 1
            reasons = [why_unseen(made_of[path], definer) for definer in sorted(definers[name])]
            if all(reasons):
                problems.add(f"{made_of[path]} or a file beside it calls {readable(name)}: {reasons[0]}")
    if not made_of:
        problems.add(f"{sys.argv[1]}: no objects of this tree are built there")
    return report("check_calls", sorted(problems), f"{calls} calls between {len(made_of)} objects go to rooms below")


if __name__ == "__main__":
    sys.exit(main())
