#!/usr/bin/env python3
"""Times `tern quantize` of an .npy file beside what it cannot do without: reading the file, quantizing its elements in
memory, and writing the output. All four are timed in turns; a time is the median of the rounds. Writes a report like
that of `tern bench --json`, with the times under "commands".

usage: time_quantize.py TERN WEIGHTS.npy REPORT.json [--rounds N]
"""
import argparse
import json
import os
import statistics
import subprocess
import time
from pathlib import Path

GRANULARITY = "group:128"
PIECE_BYTES = 1 << 20  # of a read or a write
NPY_HEAD_BYTES = 128  # of scripts/demo_weights.py


def milliseconds(work):
    begin = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begin)


def read_file(path, buffer):
    with open(path, "rb", buffering=0) as file:
        at = 0
        while count := file.readinto(buffer[at : at + PIECE_BYTES]):
            at += count
    if at != len(buffer):
        raise SystemExit(f"time_quantize: {path} has {at} bytes instead of {len(buffer)}")


def write_file(path, data):
    """As the command does: the bytes are on the disk when it ends."""
    with open(path, "xb", buffering=0) as file:
        at = 0
        while at < len(data):
            at += file.write(data[at : at + PIECE_BYTES])
        os.fsync(file.fileno())


def bench(tern, rows, columns):
    command = [tern, "bench", "ternary_quantize", "--shape", f"{rows}x{columns}", "--granularity", GRANULARITY, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def shape_of(weights):
    """(rows, columns) from the head of the file."""
    head = weights.open("rb").read(NPY_HEAD_BYTES).decode("latin-1")
    rows, columns = head.split("'shape': (")[1].split(")")[0].split(",")[:2]
    return int(rows), int(columns)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tern")
    parser.add_argument("weights", type=Path)
    parser.add_argument("report", type=Path)
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    weights, rounds = arguments.weights, arguments.rounds
    output, copy = weights.with_suffix(".npz"), weights.with_name("copy.bin")
    command = [arguments.tern, "quantize", weights, "-o", output, "--granularity", GRANULARITY]

    def quantize():
        output.unlink(missing_ok=True)
        return milliseconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))

    def write(data):
        copy.unlink(missing_ok=True)
        return milliseconds(lambda: write_file(copy, data))

    buffer = memoryview(bytearray(weights.stat().st_size))
    rows, columns = shape_of(weights)
    quantize()  # the first run also brings the file into the page cache
    data = memoryview(output.read_bytes())
    times, benches = [], []
    for _ in range(rounds):
        benches.append(bench(arguments.tern, rows, columns))
        times.append({"read_ms": milliseconds(lambda: read_file(weights, buffer)),
                      "quantize_ms": benches[-1]["records"][0]["median_us"] / 1000,
                      "write_ms": write(data),
                      "whole_ms": quantize()})  # fmt: skip
    medians = {what: statistics.median(round_times[what] for round_times in times) for what in times[0]}
    parts = medians["read_ms"] + medians["quantize_ms"] + medians["write_ms"]
    middle = sorted(benches, key=lambda report: report["records"][0]["median_us"])[rounds // 2]
    result = {"command": f"tern quantize {weights.name} -o {output.name} --granularity {GRANULARITY}",
              "shape": [rows, columns], "kernel": middle["records"][0]["kernel"],
              "threads": middle["records"][0]["threads"], "rounds": rounds,
              "input_bytes": len(buffer), "output_bytes": len(data), **medians, "parts_ms": parts,
              "ratio": medians["whole_ms"] / parts}  # fmt: skip
    report = {"machine": middle["machine"], "records": [], "commands": [result]}
    arguments.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
