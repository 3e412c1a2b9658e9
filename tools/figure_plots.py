"""Chooses the figures of bench/results to plot: shares of the limit, linear against other libraries and projects."""
import math
import statistics

from bench_results import counted
from plots import bars

PLOTTED_BYTES = 1_000_000  # the time of smaller problems is mostly start-up


def fastest(figures):
    """The fastest kernel of each problem and number of threads."""
    best = {}
    for figure in sorted(figures, key=lambda f: f.us):
        best.setdefault((str(figure.problem), figure.threads), figure)
    return list(best.values())


def geometric(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def spread(values, middle):
    return middle(values), min(values), max(values)


def share_plot(machine, figures):
    """For each kernel and limit, the median share over the problems and its range; None without such problems."""
    most, sections = max(figure.threads for figure in figures), {}
    for f in figures:
        plain = f.kind() != "model" and f.problem.get("scheme") != "mse" and "from" not in f.problem
        telling = f.by_operations or (f.record["weights"] == "cold" and f.record["bytes"] >= PLOTTED_BYTES)
        if plain and telling and (f.on_gpu or f.threads in (1, most)):
            name = "GPU" if f.on_gpu else counted(f.threads)
            rows = sections.setdefault(f"of the {f.limit}", {})
            rows.setdefault(f.record["kernel"], {}).setdefault(name, []).append(f.share)
    if not sections:
        return None
    drawn = []
    for heading, rows in sorted(sections.items()):
        drawn.append((heading, [(kernel, {name: spread(shares, statistics.median) for name, shares in sorted(by.items())})
                                for kernel, by in sorted(rows.items())]))  # fmt: skip
    return bars(f"Share of the limit, {machine}", "median over the problems, the line from the lowest to the highest; "
                "memory: cold, 1 MB and more", drawn, lambda share: f"{100 * share:.0f} %")  # fmt: skip


def beside(figures):
    """{(tokens, label): {baseline: speedups of the fastest kernel over the shapes}} of linear."""
    found = {}
    for f in fastest([figure for figure in figures if figure.op == "linear" and figure.kind() != "layers"]):
        problem = f.problem
        label = f"{problem['dtype']} in" + ("" if problem["math"] == "w2a8" else f", {problem['math']}")
        if problem["format"] in ("s8", "s4"):  # not trits, so not averaged with them
            label = f"{problem['format']}, {label}"
        label = f"{problem['model']}, {label}" if f.kind() == "model" else label
        for name, speedup in f.baselines.items():
            found.setdefault((problem["m"], label), {}).setdefault(name, []).append(speedup)
    return dict(sorted(found.items()))


def baselines_plot(machine, compared):
    rows = {}
    for (m, label), by_name in compared.items():
        values = {name: spread(speedups, geometric) for name, speedups in by_name.items()}
        rows.setdefault(f"m = {m}", []).append((label, values))
    return bars(f"linear beside other libraries, {machine}", "times as fast as they: geometric mean over the shapes, "
                "the line from the lowest to the highest", list(rows.items()), "{:.2f}".format)  # fmt: skip


def peers_plot(machine, report):
    sections = {}
    for r in sorted(report["records"], key=lambda r: (r["m"], r["threads"])):
        rows = sections.setdefault(f"m = {r['m']}, {r['weights']} weights", {})
        speed = 1 / r["tern_is_faster"]
        label = f"{r['n']} x {r['k']}, {counted(r['threads'])}"
        rows.setdefault(label, {})[r["engine"]] = (speed, speed, speed)
    return bars("Speed of a ternary linear layer, relative to Tern with f32 activations",
                f"{machine}, {report['machine']['date'][:10]}; longer is faster",
                [(heading, list(rows.items())) for heading, rows in sections.items()], "{:.2f}".format)  # fmt: skip
