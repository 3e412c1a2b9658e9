#!/usr/bin/env python3
"""Makes build/logs/times.json from the lines that scripts write (part, step, begin, end), or prints them as a table.

usage: step_times.py TIMES.tsv [--write TIMES.json] [--table]
"""
import argparse
import json
import sys
from pathlib import Path


def steps_of(path):
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        part, step, begin, end = line.split("\t")
        yield {"part": part, "step": step, "seconds": round(float(end) - float(begin), 1)}


def table(steps):
    parts = {}
    for step in steps:
        parts.setdefault(step["part"], []).append(step)
    for part, own in parts.items():
        yield f"  {part:<34}{sum(step['seconds'] for step in own):8.0f} s"
        for step in sorted(own, key=lambda step: -step["seconds"]):
            if step["seconds"] >= 1:
                yield f"    {step['step']:<32}{step['seconds']:8.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("times")
    parser.add_argument("--write")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    steps = list(steps_of(options.times))
    if options.write:
        Path(options.write).write_text(json.dumps(steps, indent=1) + "\n", encoding="utf-8")
    if options.table:
        print("Seconds by part and step; steps of one part may have run at the same time.", *table(steps), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
