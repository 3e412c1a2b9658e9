"""Draws what peers.py measured: for each shape and number of threads, each engine's speed relative to Tern's."""
from html import escape

COLOURS = {"Tern f32": "#0072b2", "Tern int8": "#56b4e9"}  # told apart also by the colour-blind
PEER_COLOURS = ["#e69f00", "#009e73", "#cc79a7"]
BAR, GAP, LEFT, HEIGHT, PANEL = 22, 22, 56, 180, 250  # pixels; PANEL is HEIGHT with title and labels


def svg(report):
    engines = list(dict.fromkeys(record["engine"] for record in report["records"]))
    peers = [engine for engine in engines if engine not in COLOURS]
    colours = COLOURS | dict(zip(peers, PEER_COLOURS))
    panels = sorted({(record["m"], record["weights"]) for record in report["records"]})
    groups = dict.fromkeys((r["threads"], r["n"], r["k"]) for r in report["records"])
    groups = sorted(groups, key=lambda group: group[0])
    group_width = BAR * len(engines) + GAP
    width = LEFT + group_width * len(groups) + 16
    machine = report["machine"]
    title = "Speed of a ternary linear layer, relative to Tern with f32 activations"
    parts = [text(LEFT, 22, title, 15, "start", "bold"),
             text(LEFT, 40, f"{machine['name']}, {machine['date'][:10]}, tern {machine['commit']}; higher is faster",
                  11, "start")]
    x = LEFT
    for engine in engines:
        parts += [rect(x, 52, 11, 11, colours[engine]), text(x + 16, 62, engine, 11, "start")]
        x += 40 + 6.5 * len(engine)
    for row, (m, weights) in enumerate(panels):
        parts += panel([r for r in report["records"] if r["m"] == m], f"m = {m}, {weights} weights", 80 + row * PANEL,
                       engines, groups, colours, width)
    height = 80 + PANEL * len(panels)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif">\n' + "\n".join([rect(0, 0, width, height, "#ffffff"), *parts]) + "\n</svg>\n")


def panel(records, title, top, engines, groups, colours, width):
    """One number of tokens: bars in groups, a line at Tern's height."""
    speeds = {(r["threads"], r["n"], r["k"], r["engine"]): 1 / r["tern_is_faster"] for r in records}
    tallest = 1.15 * max(speeds.values())
    base = top + 24 + HEIGHT
    parts = [text(LEFT, top + 14, title, 12, "start", "bold"), line(LEFT, base, width - 16, "#444444")]
    step = 0.25 if tallest < 2 else 0.5 if tallest < 4 else 1
    for i in range(1, int(tallest / step) + 1):
        y = base - HEIGHT * i * step / tallest
        parts += [line(LEFT, y, width - 16, "#444444" if i * step == 1 else "#dddddd"),
                  text(LEFT - 6, y + 4, f"{i * step:g}", 10, "end")]
    for place, (threads, n, k) in enumerate(groups):
        x = LEFT + GAP / 2 + place * (BAR * len(engines) + GAP)
        centre = x + BAR * len(engines) / 2
        parts += [text(centre, base + 15, f"{n} x {k}", 10),
                  text(centre, base + 28, "1 thread" if threads == 1 else f"{threads} threads", 10)]
        for i, engine in enumerate(engines):
            speed = speeds.get((threads, n, k, engine))
            if speed is None:
                continue
            bar = HEIGHT * speed / tallest
            parts += [rect(x + i * BAR, base - bar, BAR - 2, bar, colours[engine]),
                      text(x + i * BAR + BAR / 2 - 1, base - bar - 3, f"{speed:.2f}", 8)]
    return parts


def rect(x, y, width, height, colour):
    return f'<rect x="{x:g}" y="{y:.1f}" width="{width:g}" height="{height:.1f}" fill="{colour}"/>'


def line(x, y, to_x, colour):
    return f'<line x1="{x:g}" y1="{y:.1f}" x2="{to_x:g}" y2="{y:.1f}" stroke="{colour}"/>'


def text(x, y, words, size, anchor="middle", weight="normal"):
    return (f'<text x="{x:g}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}">'
            f"{escape(words)}</text>")
