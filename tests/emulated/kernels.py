#!/usr/bin/env python3
"""Checks which kernels a tern command runs on this machine or under TERN_MAX_ISA: exactly those of the named
instruction sets, each with the bits of the reference. linear must choose the first; TERN_FORCE_KERNEL must select each.

usage: kernels.py ISA,ISA,... [--op OP] COMMAND...     the instruction sets best first, "scalar" for none
"""
import json
import os
import subprocess
import sys

ALWAYS = {"scalar", "reference"}


def isa_of(kernel):
    return kernel.rpartition(".")[2]


def answer(command, *arguments, force=None):
    """(exit status, JSON or None) of a run of the command."""
    environment = dict(os.environ)
    if force:
        environment["TERN_FORCE_KERNEL"] = force
    result = subprocess.run([*command, *arguments, "--json"], capture_output=True, text=True, env=environment)
    if result.returncode < 0 or not result.stdout.strip():
        return result.returncode or 1, None
    return result.returncode, json.loads(result.stdout)


def forced_problems(command, runs):
    for name, does in sorted(runs.items()):
        if not name.startswith("linear."):
            continue
        problem = ("--shape", "64x64", "--format", name.split(".")[1])
        status, explained = answer(command, "explain", "linear", *problem, force=name)
        took = status == 0 and explained["chosen"] == name and explained["chosen_because"] == "TERN_FORCE_KERNEL"
        if does and not took:
            yield f"TERN_FORCE_KERNEL={name} was not obeyed"
        if not does and status == 0:
            yield f"TERN_FORCE_KERNEL={name} was accepted where it cannot run"


def selftest_problems(command, op, expected, runs):
    status, report = answer(command, "selftest", *(["--op", op] if op else []))
    if report is None or "results" not in report:
        yield f"selftest ended with status {status} and no results"
        return
    results = [result for result in report["results"] if runs[result["kernel"]]]
    for result in results:
        if result["status"] != "ok" or result["problems"] == 0:
            yield f"selftest of {result['kernel']}: {result['status']} {result['difference'] or result['skipped']}"
    compared = {isa_of(result["kernel"]) for result in results if result["status"] == "ok"}
    for isa in expected - compared:
        yield f"selftest compared no {isa} kernel"


def problems_of(command, op, best_first):
    expected = set(best_first) - ALWAYS
    status, listed = answer(command, "kernels")
    if status != 0:
        return [f"{' '.join(command)} kernels ended with status {status}"]
    runs = {kernel["name"]: kernel["runs_here"] for kernel in listed["kernels"]}
    found = {isa_of(name) for name, does in runs.items() if does} - ALWAYS
    problems = []
    if found != expected:
        problems.append(f"runs {' '.join(sorted(found)) or 'nothing'}, not {' '.join(sorted(expected)) or 'nothing'}")
    status, explained = answer(command, "explain", "linear", "--shape", "64x64")
    if status != 0 or explained["chosen"] != f"linear.i2.{best_first[0]}":
        problems.append(f"linear chose {explained and explained['chosen']}, not linear.i2.{best_first[0]}")
    problems += forced_problems(command, runs)
    problems += selftest_problems(command, op, expected, runs)
    return problems


def main(arguments):
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    best_first, command, op = arguments[0].split(","), arguments[1:], ""
    if command[0] == "--op":
        op, command = command[1], command[2:]
    problems = problems_of(command, op, best_first)
    fine = f"{best_first[0]} chosen; {', '.join(best_first)} and the reference agree"
    print(*(problems or [fine]), sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
