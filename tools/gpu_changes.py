#!/usr/bin/env python3
"""Writes the section "Changed since it last ran" of docs/gpu.md: what GPU code changed since a GPU last ran it.

usage: gpu_changes.py [--check] [tree]

The last run is the newest clean commit that a GPU's file in bench/results names: "commit" of the machine in a JSON, or
of a proof (.txt). Commits are listed by date and subject, which survive a rebase. --check fails unless the section is
what it would write now; only the newest commit may be missing, because it could not list itself.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

BEGIN, END = "<!-- gpu changes: made by tools/gpu_changes.py -->", "<!-- end of gpu changes -->"
GPU_CODE = re.compile(
    r"^src/(?:ops/(?P<op>[^/]+)/(?:.*\.cu|cuda_[^/]*)|ops/(?P<shared>cuda_[^/]*)|(?P<room>device)/cuda[^/]*"
    r"|(?P<part>plan|memory|api)/gpu[^/]*|(?P<lab>lab)/.*\.cu)$")  # fmt: skip
TEST = re.compile(r"(^|_)test\.(cpp|cu|h)$")


def git(root, *arguments):
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def runs(root):
    """The clean commits that GPUs ran, as named in their results."""
    for path in sorted((root / "bench/results").glob("nvidia-*")):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            machine = json.loads(text)["machine"]
            commit, dirty = machine["commit"], machine.get("dirty", False)
        else:
            facts = dict(line.split(" ", 1) for line in text.splitlines()[:8] if " " in line)
            commit, dirty = facts.get("commit", ""), facts.get("dirty") != "no"
        if not dirty and re.fullmatch(r"[0-9a-f]{7,40}", commit):
            yield commit


def last_run(root):
    """The newest commit of runs() that is in this history, or None."""
    known = []
    for commit in set(runs(root)):
        if git(root, "merge-base", "--is-ancestor", commit, "HEAD") is not None:
            known.append((int(git(root, "rev-list", "--count", f"{commit}..HEAD")), commit))
    return min(known)[1] if known else None


def what(name):
    """(op or room, file) by which a path is listed, or None if it is not GPU code."""
    match = GPU_CODE.match(name)
    path = Path(name)
    if not match or TEST.search(path.name):
        return None
    group = match["op"] or ("all ops" if match["shared"] else match["room"] or match["part"] or match["lab"])
    return group, path.name


def changes(root, since):
    """[(hash, "date subject", {op: {files}})] of the commits after `since` that touched GPU code, oldest first."""
    log = git(root, "log", "--reverse", "--no-merges", "--date=short", "--format=%x00%h%x01%ad %s", "--name-only",
              f"{since}..HEAD")  # fmt: skip
    found = []
    for entry in filter(None, log.split("\0")):
        head, *names = [line for line in entry.splitlines() if line]
        commit, title = head.split("\1")
        touched = {}
        for group, name in filter(None, map(what, names)):
            touched.setdefault(group, set()).add(name)
        if touched:
            found.append((commit, title, touched))
    return found


def section(since, found):
    lines = [BEGIN, ""]
    if not found:
        lines += [f"Nothing: all of it is as commit {since} ran it.", ""]
        return "\n".join([*lines, END])
    lines += [f"A GPU last ran commit {since}. Run these first when one is there again (`scripts/device-bundle`, "
              "[Contributing](../CONTRIBUTING.md)).", "", "| code for GPUs | files | commits |", "|---|---|---|"]  # fmt: skip
    for group in sorted({group for _, _, touched in found for group in touched}):
        files = sorted({f for _, _, touched in found for f in touched.get(group, ())})
        titles = [title.replace("|", "\\|") for _, title, touched in found if group in touched]
        lines.append(f"| {group} | {', '.join(f'`{f}`' for f in files)} | {'<br>'.join(titles)} |")
    return "\n".join([*lines, "", END])


def main(arguments):
    check = "--check" in arguments
    rest = [a for a in arguments if a != "--check"]
    if len(rest) > 1 or any(a.startswith("-") for a in rest):
        print(__doc__.strip())
        return 0 if rest in (["--help"], ["-h"]) else 2
    root = Path(rest[0] if rest else Path(__file__).resolve().parent.parent)
    page = root / "docs/gpu.md"
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        print(f"docs/gpu.md: needs one line {BEGIN} and one {END}")
        return 1
    since = last_run(root)
    if since is None:
        print("gpu_changes: no commit that a GPU ran is in this history: not checked")
        return 0
    found = changes(root, since)
    head = git(root, "rev-parse", "--short", "HEAD")
    fine = [section(since, found), section(since, [c for c in found if not c[0].startswith(head)])]
    begin, end = text.index(BEGIN), text.index(END) + len(END)
    if not check:
        page.write_text(text[:begin] + fine[0] + text[end:], encoding="utf-8")
        return 0
    if text[begin:end] not in fine:
        print("docs/gpu.md is not what tools/gpu_changes.py makes of the history; run it")
        return 1
    print(f"gpu_changes: {len(found)} commit(s) since {since} that no GPU ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
