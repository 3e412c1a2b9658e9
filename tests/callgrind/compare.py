#!/usr/bin/env python3
"""Counts the instructions of each case under callgrind and compares them with bench/callgrind.json.

usage: compare.py PROGRAM [--update]     prints `passed failed skipped` last
"""
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COUNTS = Path(__file__).resolve().parents[2] / "bench" / "callgrind.json"
ALLOWED = 0.02  # a change that costs more must record it with --update
SKIPPED = 77
WHAT = "instructions of four runs of each case (tests/callgrind), gcc 12 of Debian 12, Release"

CASES = [
    f"{op}.{case}"
    for op in ("ternary_quantize", "ternary_dequantize")
    for isa in ("x86_avx2", "x86_sse41", "scalar", "reference")
    for case in (f"i2.{isa} absmax group:128", f"i2.{isa} absmean row", f"s2.{isa} int2 row", f"i8.{isa} absmax tensor")
    if op == "ternary_quantize" or "absmean" not in case
] + [f"ternary_quantize.i2.{isa} mse row" for isa in ("x86_avx2", "x86_sse41", "scalar")] + [
    case
    for isa in ("x86_avx2", "x86_sse41", "scalar")
    for case in (f"activation_quantize.i8.{isa} f32x13 row", f"linear.i2.{isa} i8x1 row", f"linear.i2.{isa} i8x13 tensor",
                 f"linear.i2.{isa} i8x13 group:128", f"linear.i2.{isa} f32x1 row", f"linear.i2.{isa} f32x13 row",
                 f"linear.s8.{isa} i8x1 row", f"linear.s4.{isa} i8x13 row",
                 f"affine_quantize.s8.{isa} f32 group:128 zero_points", f"affine_quantize.s4.{isa} bf16 row zero_points",
                 f"affine_dequantize.s8.{isa} f32 group:128 zero_points",
                 f"fake_quantize.s8.{isa} bf16 group:128 zero_points",
                 f"fake_quantize_backward.s8.{isa} f32 group:128 zero_points",
                 f"choose_qparams.s8.{isa} f32 group:128 zero_points", f"dynamic_quantize.s8.{isa} f32 row",
                 f"conv2d.i2.{isa} i8x1 row", f"conv2d.i2.{isa} f32x1 tensor", f"conv2d.s4.{isa} i8x2 row")
]


def count(program, case):
    """(instructions, exit status, stderr) of one case."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no",
               "--toggle-collect=*measured(*", program, *case.split()]  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TERN_")}
    environment["TERN_THREADS"] = "1"
    environment["LD_BIND_NOW"] = "1"  # looking up symbols is not a kernel's work
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    return int(collected[1]) if collected else 0, done.returncode, done.stderr.strip()


def judge(case, result, known):
    """("passed", "failed" or "skipped", and why) of a counted case."""
    instructions, status, said = result
    if status == SKIPPED:
        return "skipped", next((line for line in said.splitlines() if line.startswith("callgrind_cases:")), said)
    if status != 0 or instructions == 0:
        return "failed", f"exit status {status}, {instructions} instructions\n{said}"
    if case not in known:
        return "failed", f"{instructions} instructions, none on record; run with --update"
    change = instructions / known[case] - 1
    text = f"{instructions} instructions, {known[case]} on record ({100 * change:+.2f} %)"
    return ("failed" if change > ALLOWED else "passed"), text


def main():
    program, update = sys.argv[1], "--update" in sys.argv[2:]
    known = json.loads(COUNTS.read_text(encoding="utf-8"))["instructions"] if COUNTS.is_file() else {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(CASES, pool.map(lambda case: count(program, case), CASES)))
    if update:
        known.update({case: result[0] for case, result in results.items() if result[0] and result[1] == 0})
        known = {case: known[case] for case in CASES if case in known}
        COUNTS.write_text(json.dumps({"what": WHAT, "instructions": known}, indent=2) + "\n", encoding="utf-8")
    verdicts = {case: judge(case, result, known) for case, result in results.items()}
    verdicts.update({case: ("failed", "on record, but no case any more; run with --update")
                     for case in known if case not in results})  # fmt: skip
    for case, (verdict, why) in verdicts.items():
        print(f"  {verdict:8}{case:48} {why}")
    counts = [sum(verdict == kind for verdict, _ in verdicts.values()) for kind in ("passed", "failed", "skipped")]
    print(*counts)
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
