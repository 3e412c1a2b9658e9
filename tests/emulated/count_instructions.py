#!/usr/bin/env python3
"""Counts the ARM instructions per weight or per product of cases of tests/callgrind, single-stepped under qemu.

usage: count_instructions.py [PROGRAM] [CASE...]     a case as in "linear.i2.arm_neon i8x13 row"
"""
import re
import subprocess
import sys

PROGRAM = "build/arm64/tests/callgrind_cases"
ROWS, COLUMNS, REPETITIONS = 48, 1030, 4  # of tests/callgrind/main.cpp
QEMU = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu", "max", "-singlestep", "-d", "exec,nochain"]
CASES = (
    [f"ternary_quantize.i2.{isa} absmean row" for isa in ("arm_neon", "scalar")]
    + [f"ternary_dequantize.i2.{isa} absmax row" for isa in ("arm_neon", "scalar")]
    + [f"activation_quantize.i8.{isa} f32x48 row" for isa in ("arm_neon", "scalar")]
    + [f"linear.i2.{isa} i8x{m} row" for m in (1, 48) for isa in ("arm_i8mm", "arm_dotprod", "arm_neon", "scalar")]
)


def count(program, case):
    """Instructions from the entry of measured() until its caller continues."""
    process = subprocess.Popen([*QEMU, program, *case.split()], stderr=subprocess.PIPE, text=True)
    instructions, caller, before, inside = 0, "", "", False
    for line in process.stderr:
        if not line.startswith("Trace "):
            continue
        symbol = line.rpartition("] ")[2].strip()
        if not inside and not caller and "measured" in symbol:
            inside, caller = True, before
        elif inside and symbol == caller:
            inside = False
        instructions += inside
        before = symbol
    return instructions if process.wait() == 0 else 0


def main(arguments):
    program = arguments[0] if arguments else PROGRAM
    for case in arguments[1:] or CASES:
        tokens = re.search(r"linear.* \w+x(\d+) ", case)
        products = ROWS * COLUMNS * REPETITIONS * (int(tokens[1]) if tokens else 1)
        instructions = count(program, case)
        if instructions == 0:
            print(f"{case}: nothing was counted")
            return 1
        print(f"{instructions / products:8.3f}  {case}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
