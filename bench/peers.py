"""Times Tern, llama.cpp's TQ2_0 and onnxruntime's 2-bit MatMulNBits in turns; scripts/peers runs it."""
import gc
import json
import re
import statistics
import subprocess
import sys
import time

from peers_arguments import parse_arguments
from peers_engine import PeerError, Problem
from peers_ggml import Ggml
from peers_onnx import Onnx, probe_onnx
from peers_tern import Library, Tern

TOKENS = [1, 128]  # one token with cold weights, many tokens with warm ones
LEAST_COLD_BYTES = 600_000_000  # and at least four times the last-level cache, as `tern bench` does
MEMORY_PARTS = 12  # each engine gets 1/12 of the memory: all together hold about seven times one's rotation


def run_tern(*arguments):
    try:
        done = subprocess.run([*arguments, "--json"], capture_output=True, text=True, check=False)
    except OSError as failure:
        raise PeerError(f"{failure}; scripts/peers builds it") from failure
    if done.returncode != 0:
        raise PeerError(f"`{' '.join(arguments)}` failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def cold_bytes_of(machine, available_bytes):
    """How many bytes of weights each engine rotates over, and notes for the report."""
    last_level = max((cache["bytes"] * cache["count"] for cache in machine["caches"]), default=64 << 20)
    wanted, possible = max(LEAST_COLD_BYTES, 4 * last_level), available_bytes // MEMORY_PARTS
    notes = [f"cold: each engine rotates over {min(wanted, possible) / 1e6:.0f} MB of weights"]
    if possible < wanted:
        notes.append(f"memory is short: {wanted / 1e6:.0f} MB were wanted")
    return min(wanted, possible), notes


def measure_cell(shape, m, arguments, library, setting, cold_bytes):
    """Times all engines on one shape: a record for each engine and number of threads."""
    n, k = shape
    problem = Problem(n, k, m, max(2, -(-4 * cold_bytes // (n * k))) if m == 1 else 1)
    engines = [Tern(library, problem, arguments.threads, "f32"), Tern(library, problem, arguments.threads, "int8"),
               Ggml(problem, arguments.threads), Onnx(problem, arguments.threads, setting)]
    rounds = {(engine, threads): [] for engine in engines for threads in arguments.threads}
    for turn in range(arguments.rounds):
        for threads in arguments.threads:
            for engine in engines if turn % 2 == 0 else reversed(engines):
                rounds[engine, threads].append(engine.median_us(threads, arguments.repetitions))
    records = []
    for (engine, threads), times in rounds.items():
        ours = rounds[engines[0], threads]  # paired: the engines of a round ran within seconds of each other
        us = statistics.median(times)
        records.append({
            "engine": engine.name, "setting": engine.setting, "n": n, "k": k, "m": m,
            "weights": "cold" if problem.copies > 1 else "warm", "copies": problem.copies, "threads": threads,
            "median_us": round(us, 2), "rounds_us": [round(t, 2) for t in times], "weight_bytes": engine.weight_bytes,
            "gb_per_s": round(engine.weight_bytes / us / 1e3, 2), "gops": round(2 * n * k * m / us / 1e3, 1),
            "error": round(engine.error, 5),
            "tern_is_faster": round(statistics.median(t / o for t, o in zip(times, ours)), 3)})
    for engine in engines:
        engine.close()
    return records


def table(report):
    """The printed tables: a line for each shape and number of threads, with columns for each engine."""
    names = list(dict.fromkeys(record["engine"] for record in report["records"]))
    lines = []
    for m in TOKENS:
        cells = {}
        for record in report["records"]:
            if record["m"] == m:
                cells.setdefault((record["n"], record["k"], record["threads"]), {})[record["engine"]] = record
        if not cells:
            continue
        key, rate = ("gb_per_s", "GB/s of the engine's own packed weights") if m == 1 else ("gops", "GOPS")
        weights = "cold" if m == 1 else "warm"
        lines += ["", f"m = {m}, {weights} weights: us, {rate}, how many times as fast Tern f32 is", "",
                  f"{'N x K':13} {'threads':7}" + "".join(f"  {name:>29}" for name in names)]
        for (n, k, threads), by_engine in cells.items():
            lines.append(f"{f'{n} x {k}':13} {threads:7}" + "".join(
                f"  {r['median_us']:11.1f} {r[key]:9.1f} {r['tern_is_faster']:6.2f}x"
                for r in (by_engine[name] for name in names)))
    machine = report["machine"]
    lines += ["", f"{machine['name']}, {machine['usable_threads']} threads, {machine['date']}; commit "
              f"{machine['commit']}; {report['rounds']} rounds of {report['repetitions']} samples"]
    lines += sorted({f"{record['engine']}: {record['setting']}" for record in report["records"]})
    return "\n".join(lines[1:] + report["notes"]) + "\n"


def main():
    arguments = parse_arguments()
    started = time.monotonic()
    command = f"{arguments.build}/bin/tern"
    available_bytes = run_tern(command, "devices")["devices"][0]["memory_available_bytes"]
    # The smallest bench, for its description of the machine, which has the commit and the date.
    machine = run_tern(command, "bench", "linear", "--shape", "64x64", "--m", "8", "--repetitions", "1")["machine"]
    del machine["limits"]
    threads = [count for count in arguments.threads if count <= machine["usable_threads"]] or [1]
    if threads != arguments.threads:
        print(f"  threads {threads}: this process may use {machine['usable_threads']}")
        arguments.threads = threads
    library = Library(f"{arguments.build}/libtern.so")
    cold_bytes, notes = cold_bytes_of(machine, available_bytes)
    settings, tried = {}, {}
    for m in TOKENS:
        settings[m], tried[f"m={m}"] = probe_onnx(m)
        print(f"  onnxruntime, m = {m}: fastest of {len(tried[f'm={m}'])} settings is {settings[m]}", flush=True)
    records = []
    cells = [(shape, m) for m in TOKENS for shape in arguments.shapes]
    for done, (shape, m) in enumerate(cells):
        passed_s = time.monotonic() - started
        print(f"  {done + 1} of {len(cells)}: {shape[0]} x {shape[1]}, m = {m} (after {passed_s:.0f} s)", flush=True)
        records += measure_cell(shape, m, arguments, library, settings[m], cold_bytes)
        gc.collect()  # frees the sessions' weights before the next cell's are made
    report = {"machine": machine, "rounds": arguments.rounds, "repetitions": arguments.repetitions,
              "cold_bytes": cold_bytes, "notes": notes, "onnxruntime_settings": tried, "records": records}
    print("\n" + table(report))
    name = re.sub(r"[^a-z0-9]+", "-", machine["name"].lower()).strip("-")
    stem = f"{name}-{machine['usable_threads']}t-{machine['date'][:10]}-peers"
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{stem}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrote {path}; tools/numbers_page.py puts it into the documents")


if __name__ == "__main__":
    try:
        main()
    except PeerError as failure:
        sys.exit(f"peers: {failure}")
    except MemoryError:
        sys.exit("peers: not enough memory; close other programs, or give fewer --shapes")
