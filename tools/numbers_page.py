#!/usr/bin/env python3
"""Writes docs/figures.md, docs/plots and the README's table from bench/results; with --check only compares."""
import argparse
import re
import sys
from pathlib import Path

from bench_results import DOTS, ResultError, counted, read, slug
from figure_plots import baselines_plot, beside, geometric, peers_plot, share_plot

BEGIN, END = "<!-- figures: made by tools/numbers_page.py -->", "<!-- end of figures -->"
MANY_TOKENS = 64  # from here on every machine is limited by arithmetic

ABOVE_THE_LIMIT = ("A share above 100 % is no mistake: either the data was warm and the limit is memory's, or the kernel "
                   "has better instructions than those that the limit is made of.")

PREFACE = f"""# Figures

Made by `tools/numbers_page.py` from [bench/results](../bench/results); change those, not this page. [Performance](performance.md) says how to measure, what the words mean, and what was predicted and tried.

Above each table stands the command that repeats it, `build/release/bin/tern` as `tern`; what differs between its rows is a word in capitals, and a column. A time is the median of a run; shares are of the limit that was measured in turns with the kernel. Bytes of a problem count once, also where a scale for a whole tensor makes a kernel read it twice. {ABOVE_THE_LIMIT} Where a problem was measured twice, the newest figure stands here.
"""

# The README's rows: a title, and the fields that select records. The fastest of them with the most threads is shown.
HEADLINES = (
    ("`ternary_quantize`, f32, `absmax` in groups of 128",
     {"op": "ternary_quantize", "dtype": "f32", "scheme": "absmax", "granularity": "group:128"}),
    ("`ternary_dequantize`, f32, groups of 128",
     {"op": "ternary_dequantize", "dtype": "f32", "granularity": "group:128"}),
    ("`linear`, all layers of BitNet-2B, one token, int8 in", {"model": "bitnet-2b", "m": 1, "dtype": "i8"}),
    ("`linear`, 55296 x 5120, one token, int8 in",
     {"rows": 55296, "cols": 5120, "m": 1, "dtype": "i8", "format": "i2"}),
    ("`linear`, 2560 x 6912, many tokens, int8 in", {"rows": 2560, "cols": 6912, "dtype": "i8", "format": "i2"}),
    ("`linear`, a head of 128256 x 2560 in `s8`, one token",
     {"rows": 128256, "cols": 2560, "m": 1, "dtype": "i8", "format": "s8"}),
    ("`linear`, the same in `s4`, groups of 128",
     {"rows": 128256, "cols": 2560, "m": 1, "dtype": "i8", "format": "s4", "granularity": "group:128"}),
    ("`affine_quantize`, f32 to `s8`, groups of 128",
     {"op": "affine_quantize", "dtype": "f32", "format": "s8", "granularity": "group:128"}),
    ("`fake_quantize` with its mask, f32, groups of 128",
     {"op": "fake_quantize", "dtype": "f32", "granularity": "group:128"}),
)  # fmt: skip


def number(value):
    """Three significant digits, or all digits before the point if there are more."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def duration(us):
    return f"{number(us)} us" if us < 1000 else f"{number(us / 1000)} ms" if us < 1e6 else f"{number(us / 1e6)} s"


def percent(share):
    return f"{100 * share:.1f} %"


def span(values, say=number):
    low, high = say(min(values)), say(max(values))
    return low if low == high else f"{low} to {high}"


def rate(figure):
    """(value, unit) of the rate in a figure's table."""
    if figure.kind() == "model":
        items = "images" if "images" in figure.problem else "tokens"
        return figure.options()["m"] * 1e6 / figure.us, f"{items}/s"
    return (figure.per_second / 1000, "TOPS") if figure.by_operations else (figure.per_second, "GB/s")


def limit(figure):
    value = figure.record["limit"]["value"]
    return (value / 1000, "TOPS") if figure.by_operations else (value, "GB/s")


def natural(value):
    """Sorts 2560x640 before 2560x6912."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(value))]


def anchor(heading):
    """The anchor that Markdown gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def markdown(header, rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows]) + "\n"


def command(figures, columns):
    """The command of a table: shared options with their values, options that are columns in capitals."""
    first, options = figures[0], figures[0].options()
    words = ["tern bench", first.op]
    for option, value in options.items():
        if option == "shape" and "model" in options:
            continue  # the model already names its layers
        if option in columns:
            words.append(f"--{option} {option.upper()}")
        elif any(f.options().get(option, value) != f.default(option) for f in figures):
            words.append(f"--{option} {value}")
    if first.record["weights"] == "warm":
        words.append("--warm")
    if first.on_gpu:
        words.append(f"--device {first.record['device']}")
    else:
        words.append("--threads " + ",".join(str(n) for n in sorted({figure.threads for figure in figures})))
    if any(figure.baselines for figure in figures):
        words.append("--baselines" if first.op in DOTS else "--all-kernels")
    return " ".join(words)


def sources(found):
    return "; ".join(f"{date[:10]}, commit {commit}, [{name}](../bench/results/{name})"
                     for date, commit, name in sorted(found))  # fmt: skip


def table(figures):
    """One table: a row for each problem; threads are columns where there are several, baselines otherwise."""
    every = [figure.options() for figure in figures]
    given = {option for options, f in zip(every, figures) for option in options if options[option] != f.default(option)}
    columns = [option for option in every[0] if option in given and len({options[option] for options in every}) > 1]
    said = f"`{command(figures, columns)}`\n\n{sources({figure.source for figure in figures})}."
    if not columns or (figures[0].kind() == "layers" and "shape" not in columns):  # the command does not name them
        columns.insert(0, "shape" if "shape" in every[0] else "model")
    rows = {}
    for options, figure in zip(every, figures):
        options["shape"] = options.get("shape", "").replace("x", " x ")
        rows.setdefault(tuple(str(options[column]) for column in columns), []).append(figure)
    rows = sorted(rows.items(), key=lambda row: [natural(cell) for cell in row[0]])
    threads = sorted({figure.threads for figure in figures})
    unit, limit_unit = rate(figures[0])[1], limit(figures[0])[1]
    if len(threads) == 1 or figures[0].on_gpu:
        names = list(dict.fromkeys(name for figure in figures for name in figure.baselines))
        header = [*columns, "time", unit, f"limit, {limit_unit}", "share", *(f"times {name}" for name in names)]
        body = [[*cells, duration(f.us), number(rate(f)[0]), number(limit(f)[0]), percent(f.share),
                 *(f"{f.baselines[name]:.2f}" if name in f.baselines else "" for name in names)]
                for cells, (f, *_) in rows]  # fmt: skip
    else:
        said += f" Time, {unit}, share."
        header, body = [*columns, *(counted(n) for n in threads)], []
        for cells, of_row in rows:
            by_threads = {figure.threads: figure for figure in of_row}
            body.append([*cells, *(cell(by_threads[n]) if n in by_threads else "" for n in threads)])
        limits = [span([limit(f)[0] for f in figures if f.threads == n]) for n in threads]
        body.append([f"limit, {limit_unit}", *[""] * (len(columns) - 1), *limits])
    notes = sorted({note for figure in figures for note in figure.record.get("notes", [])})
    return "\n".join([said, "", markdown(header, body), *(f"Note: {note}.\n" for note in notes)])


def cell(figure):
    compared = "".join(f", {speedup:.2f} times {name}" for name, speedup in figure.baselines.items())
    return f"{duration(figure.us)}, {number(rate(figure)[0])}, {percent(figure.share)}{compared}"


def size(count):
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{number(count)} {unit}"
        count /= 1024


def facts(machine):
    """A line that describes the machine, because its name alone may say little."""
    caches = [f"L{c['level']} {size(c['bytes'])}" for c in machine["caches"] if c["type"] != "instruction"]
    said = [machine["architecture"], *caches, f"{size(machine['memory_bytes'])} of memory"]
    if "driver" in machine:
        said += [f"{machine['multiprocessors']} multiprocessors", f"driver {machine['driver']}",
                 f"CUDA {machine['cuda']}", f"in a machine with {machine['host']}"]  # fmt: skip
    return ", ".join(said + [f"`{word}`" for word in machine["capabilities"] if word != machine["architecture"]]) + "."


def peers_tables(report):
    """Tern's and the peers' times: a table for each number of tokens, a row for each shape and number of threads."""
    records = report["records"]
    shapes = ",".join(dict.fromkeys(f"{r['n']}x{r['k']}" for r in records))
    threads = ",".join(str(n) for n in sorted({r["threads"] for r in records}))
    engines = list(dict.fromkeys(r["engine"] for r in records))
    out = [f"`scripts/peers --threads {threads} --rounds {report['rounds']} --repetitions {report['repetitions']} "
           f"--shapes {shapes}`\n\n{sources({report['source']})}. Each engine's time, and how many times as fast as it "
           f"{engines[0]} is, paired by rounds.\n"]  # fmt: skip
    out += [f"- {engine}: {setting}" for engine, setting in sorted({(r["engine"], r["setting"]) for r in records})]
    for m, weights in sorted({(r["m"], r["weights"]) for r in records}):
        cells = {}
        for r in records:
            if r["m"] == m:
                cells.setdefault((r["threads"], r["n"], r["k"]), {})[r["engine"]] = r
        body = []
        for (count, n, k), by in sorted(cells.items()):
            times = [f"{duration(by[e]['median_us'])}, {by[e]['tern_is_faster']:.2f}" if e in by else "" for e in engines]
            body.append([f"{n} x {k}", str(count), *times])
        out += ["", f"m = {m}, {weights} weights:\n", markdown(["shape", "threads", *engines], body)]
    return "\n".join(out)


def commands_table(report):
    """Whole commands beside the times of what each of them cannot do without."""
    header = ["command", "input", "output", "threads", "read", "quantize", "write", "whole command", "times the parts"]
    body = [[f"`{c['command']}`", size(c["input_bytes"]), size(c["output_bytes"]), str(c["threads"]),
             *(duration(1000 * c[part]) for part in ("read_ms", "quantize_ms", "write_ms", "whole_ms")),
             f"{c['ratio']:.2f}"] for c in report["commands"]]  # fmt: skip
    rounds = min(c["rounds"] for c in report["commands"])
    return (f"`scripts/bench quantize`\n\n{sources({report['source']})}. Medians of {rounds} rounds: reading the file "
            "from the page cache, quantizing its elements in memory, writing and flushing the output, and the command, "
            f"which also measures the quality.\n\n{markdown(header, body)}")  # fmt: skip


def headline(figures, wanted):
    """The cell of a machine for a row of the README; empty where it was not measured."""
    fits = [f for f in figures if f.kind() != "layers" and wanted.items() <= ({"op": f.op} | f.problem).items()
            and (wanted.get("m") == 1 or f.op != "linear" or f.problem["m"] >= MANY_TOKENS)]  # fmt: skip
    if not fits:
        return "-"
    f = max(fits, key=lambda f: (f.threads, f.record["weights"] == "cold", f.per_second))
    many = f"{f.problem['m']} tokens: " if f.problem.get("m", 1) > 1 else ""
    return f"{many}{number(rate(f)[0])} {rate(f)[1]}, {percent(f.share)} of the {f.limit}"


def compared_cells(machines, figures, peers, many):
    """Speed of linear relative to each other library, on each machine, with one token or the most tokens."""
    for machine in machines:
        found = {m: by for (m, label), by in beside(figures[machine]).items() if label == "i8 in"}
        if machine in peers:
            records = peers[machine]["records"]
            most = max(r["threads"] for r in records)
            for r in records:
                if r["threads"] == most and not r["engine"].startswith("Tern"):
                    found.setdefault(r["m"], {}).setdefault(r["engine"], []).append(r["tern_is_faster"])
        m = max((m for m in found if m > 1), default=0) if many else 1
        cells = [f"{geometric(values):.1f} {name}" for name, values in found.get(m, {}).items()]
        yield (f"{m} tokens: " if many else "") + ", ".join(cells) if cells else "-"


def readme_table(machines, figures, peers):
    rows = [[what, *(headline(figures[machine], wanted) for machine in machines)] for what, wanted in HEADLINES]
    for many in (False, True):
        what = f"`linear`, {'many tokens' if many else 'one token'}, times as fast as"
        rows.append([what, *compared_cells(machines, figures, peers, many)])
    above = any(float(share) > 100 for row in rows for cell in row for share in re.findall(r"([\d.]+) %", cell))
    made = [markdown(["", *machines], [row for row in rows if set(row[1:]) != {"-"}]), *([ABOVE_THE_LIMIT, ""] if above else [])]
    return "\n".join([BEGIN, "", *made, END])


def pages(root):
    """{path: text} of every file that is made from bench/results."""
    facts_of, all_figures, peers, commands = read(root / "bench" / "results")
    machines = sorted(facts_of, key=natural)
    figures = {machine: [f for f in all_figures if f.machine == machine] for machine in machines}
    made, page = {}, [PREFACE, *(f"- [{machine}](#{anchor(machine)})" for machine in machines), ""]

    def plot(name, machine, drawing):
        if drawing is not None:
            made[f"docs/plots/{name}-{slug(machine)}.svg"] = drawing
            page.append(f"![{name}](plots/{name}-{slug(machine)}.svg)\n")

    for machine in machines:
        page.append(f"## {machine}\n")
        if facts_of[machine]:
            page.append(facts(facts_of[machine]) + "\n")
        if figures[machine]:
            plot("share", machine, share_plot(machine, figures[machine]))
        compared = beside(figures[machine])
        if compared:
            plot("baselines", machine, baselines_plot(machine, compared))
        tables = {}
        for f in figures[machine]:
            key = (f.op, f.kind() != "model", f.kind(), f.record["weights"], f.limit, "from" in f.problem)
            tables.setdefault(key, []).append(f)
        for (op, _, kind, weights, limit_name, _), of_table in sorted(tables.items()):
            what = {"model": ", all layers of a model", "layers": ", layers that share an input"}.get(kind, "")
            page += [f"### {op}{what}, {weights}, shares of the {limit_name}\n", table(of_table)]
        if machine in peers:
            page.append("### linear beside other projects' kernels\n")
            plot("peers", machine, peers_plot(machine, peers[machine]))
            page.append(peers_tables(peers[machine]))
        if machine in commands:
            page += ["### tern quantize, the whole command\n", commands_table(commands[machine])]
    made["docs/figures.md"] = "\n".join(page).rstrip("\n") + "\n"
    readme = (root / "README.md").read_text(encoding="utf-8")
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or readme.index(BEGIN) > readme.index(END):
        raise ResultError(f"README.md: needs one line {BEGIN} and, below it, one line {END}")
    made["README.md"] = readme[:readme.index(BEGIN)] + readme_table(machines, figures, peers) + readme[
        readme.index(END) + len(END):]  # fmt: skip
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not what it would be")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    root = arguments.root
    try:
        made = pages(root)
    except (ResultError, OSError) as failure:
        sys.exit(f"numbers_page: {failure}")
    stale = [path for path in sorted((root / "docs" / "plots").glob("*.svg"))
             if path.relative_to(root).as_posix() not in made]  # fmt: skip
    changed = [name for name, text in made.items()
               if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text]  # fmt: skip
    names = changed + [path.relative_to(root).as_posix() for path in stale]
    if arguments.check:
        for name in names:
            print(f"{name}: not what bench/results says; run tools/numbers_page.py")
        print(f"numbers_page: {len(names)} problem(s)" if names else f"numbers_page: {len(made)} files are up to date")
        return 1 if names else 0
    for name in changed:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(made[name], encoding="utf-8")
    for path in stale:
        path.unlink()
    print("numbers_page:", ", ".join(names) if names else "nothing to change")
    return 0


if __name__ == "__main__":
    sys.exit(main())
