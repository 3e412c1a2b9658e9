#!/usr/bin/env python3
"""Counts the tests of a CTest JUnit file: prints `passed failed skipped`, and the failures and skips on stderr."""
import re
import sys
import xml.etree.ElementTree as ElementTree

MAX_LINES_PER_FAILURE = 60  # the message names the file with the rest


def skip_reason(output):
    """The line a test wrote when it skipped itself."""
    for line in output.splitlines():
        if re.search(r"skipped:", line, re.IGNORECASE):
            return line.strip()
    return ""


def did_not_skip_itself(case):
    """Whether it failed or could not run. CTest reports a missing program or failed fixture like a test that skips."""
    skip = case.find("skipped")
    return case.get("status") == "fail" or (skip is not None and not skip.get("message", "").startswith("SKIP_"))


def main(path):
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as problem:
        print(f"{path}: {problem}", file=sys.stderr)
        return 1
    passed = failed = 0
    skipped = {}
    for case in cases:
        name, output = case.get("name"), case.findtext("system-out") or ""
        if case.get("status") == "run":
            passed += 1
        elif did_not_skip_itself(case):
            failed += 1
            lines = output.rstrip().splitlines() or [case.find("*").get("message", "")]
            print(f"\n---- failed: {name}", *lines[-MAX_LINES_PER_FAILURE:], sep="\n", file=sys.stderr)
            if len(lines) > MAX_LINES_PER_FAILURE:
                print(f"({len(lines) - MAX_LINES_PER_FAILURE} lines before these: {path})", file=sys.stderr)
        else:
            skipped.setdefault(skip_reason(output), []).append(name)
    for reason, names in skipped.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"  skipped {names[0]}{more} {reason}", file=sys.stderr)
    print(passed, failed, sum(map(len, skipped.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
