"""Draws horizontal bars as SVG: sections of rows, each with one bar per series; a thin line shows a range."""
from html import escape

COLOURS = ("#0072b2", "#56b4e9", "#e69f00", "#009e73", "#cc79a7")  # the colour-blind can tell them apart
BAR, GAP, WIDTH, MARGIN = 12, 8, 460, 16  # pixels; WIDTH is that of the longest bar
LETTER = 6.3  # pixels, an estimate: SVG does not tell the width of text


def bars(title, subtitle, sections, say):
    """A section is (heading, rows), a row (label, {series: (value, low, high)}); say(value) is a value's text."""
    rows = [row for _, section in sections for row in section]
    series = list(dict.fromkeys(name for _, values in rows for name in values))
    colours = dict(zip(series, COLOURS))
    left = MARGIN + LETTER * max(len(label) for label, _ in rows) + 8
    longest = max(1.0, *(high for _, values in rows for _, _, high in values.values()))
    step = next(s for s in (0.25, 0.5, 1, 2, 5, 10, 50, 1e9) if longest / s <= 10)
    parts, y = [text(MARGIN, 24, title, 15, "start", "bold"), text(MARGIN, 42, subtitle, 11, "start")], 60
    if len(series) > 1:
        x = MARGIN
        for name in series:
            parts += [rect(x, y - 9, 11, 11, colours[name]), text(x + 16, y, name, 11, "start")]
            x += 36 + LETTER * len(name)
        y += 22
    for heading, section in sections:
        bottom = y + 24 + sum(BAR * len(values) + GAP for _, values in section)
        parts.append(text(MARGIN, y + 4, heading, 12, "start", "bold"))
        for i in range(int(longest / step) + 1):
            x = left + WIDTH * i * step / longest
            parts += [line(x, y + 20, x, bottom, "#444444" if i * step in (0, 1) else "#dddddd"),
                      text(x, y + 17, say(i * step), 9)]  # fmt: skip
        y += 24 + GAP / 2
        for label, values in section:
            parts.append(text(left - 6, y + BAR * len(values) / 2 + 4, label, 11, "end"))
            for name, (value, low, high) in values.items():
                parts += bar(left, y, (value, low, high), longest, colours[name], say)
                y += BAR
            y += GAP
        y += 18
    width = left + WIDTH + 70
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {y:g}" width="{width:g}" height="{y:g}" '
            'font-family="sans-serif">\n' + "\n".join([rect(0, 0, width, y, "#ffffff"), *parts]) + "\n</svg>\n")


def bar(left, y, value_low_high, longest, colour, say):
    value, low, high = (WIDTH * v / longest for v in value_low_high)
    centre = y + (BAR - 2) / 2
    parts = [rect(left, y, value, BAR - 2, colour)]
    if high > low:
        parts.append(line(left + low, centre, left + high, centre, "#222222"))
    return [*parts, text(left + max(value, high) + 5, y + 9, say(value_low_high[0]), 9, "start")]


def rect(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def line(x, y, to_x, to_y, colour):
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"/>'


def text(x, y, words, size, anchor="middle", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}">'
            f"{escape(words)}</text>")
