"""Pictures as SVG: lines over a logarithmic axis, and bars. They follow the reader's light or dark."""

import dataclasses
import html
import math

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860, 70, 230, 64, 56
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #57606a }
.title { font-size: 16px; font-weight: 600; fill: #1f2328 }
.grid { stroke: #d0d7de; stroke-width: 1 }
.line { fill: none; stroke-width: 2.2; stroke-linejoin: round }
.dashed { stroke-dasharray: 5 4 }
.strong { font-weight: 600 }
""" + "".join(
    f".s{at} {{ stroke: {light} }} .f{at}, text.f{at} {{ fill: {light} }}\n"
    for at, light in enumerate(("#6e7781", "#0969da", "#1a7f37", "#bc4c00", "#8250df", "#cf222e"))
) + "@media (prefers-color-scheme: dark) {\ntext { fill: #9198a1 } .title { fill: #f0f6fc } .grid { stroke: #3d444d }\n" + "".join(
    f".s{at} {{ stroke: {dark} }} .f{at}, text.f{at} {{ fill: {dark} }}\n"
    for at, dark in enumerate(("#8b949e", "#58a6ff", "#3fb950", "#f0883e", "#bc8cff", "#ff7b72"))
) + "}\n"


@dataclasses.dataclass
class Series:
    name: str
    points: list
    colour: int
    dashed: bool = False


@dataclasses.dataclass
class Bar:
    label: str
    value: float
    colour: int
    shown: str


def lines(title, below, beside, series, height=400, from_zero=False):
    """`series` over logarithmic `x`; `y` is logarithmic too, or begins at zero. Names stand at the ends of the lines."""
    series = [one for one in series if one.points]
    xs = sorted({x for one in series for x, _ in one.points})
    ys = [y for one in series for _, y in one.points]
    ticks = even_ticks(max(ys)) if from_zero else decades(min(ys), max(ys))
    across = axis(math.log, xs[0], max(xs[-1], 2 * xs[0]), LEFT, WIDTH - RIGHT)
    up = axis(float if from_zero else math.log, ticks[0], ticks[-1], height - BOTTOM, TOP)
    parts = [words(LEFT, 24, title, "title"), words(LEFT, 46, beside)]
    parts += [grid(up(y)) + words(LEFT - 10, up(y) + 4, short(y), anchor="end") for y in ticks]
    parts += [words(across(x), height - BOTTOM + 22, short(x), anchor="middle") for x in xs]
    parts += [words((LEFT + WIDTH - RIGHT) / 2, height - 12, below, anchor="middle")]
    for one in series:
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in one.points)
        dashed = " dashed" if one.dashed else ""
        parts.append(f'<polyline class="line s{one.colour}{dashed}" points="{path}"/>')
        parts += [f'<circle class="f{one.colour}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="3"/>' for x, y in one.points]
    ends = apart([(up(one.points[-1][1]), one) for one in series], height - BOTTOM)
    parts += [words(WIDTH - RIGHT + 12, y + 4, one.name, f"f{one.colour}") for y, one in ends]
    return svg(height, parts)


def bars(title, beside, groups, logarithmic=False):
    """`groups` of bars under a heading each, lying, with their values at their ends."""
    left, row = 300, 24
    values = [bar.value for _, group in groups for bar in group]
    least = min(values) / 2 if logarithmic else 0
    along = axis(math.log if logarithmic else float, least, max(values), 0, WIDTH - left - 90)
    parts, y = [words(20, 24, title, "title"), words(20, 46, beside)], TOP + 4
    for heading, group in groups:
        y += row
        parts.append(words(20, y, heading, "strong"))
        for bar in group:
            y += row
            length = max(along(bar.value), 1)
            parts.append(words(left - 10, y, bar.label, anchor="end"))
            parts.append(f'<rect class="f{bar.colour}" x="{left}" y="{y - 12}" width="{length:.1f}" height="15" rx="2"/>')
            parts.append(words(left + length + 8, y, bar.shown))
        y += row / 3
    return svg(y + 16, parts)


def svg(height, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def words(x, y, text, kind="", anchor="start"):
    kind = f' class="{kind}"' if kind else ""
    anchor = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}{anchor}>{html.escape(text)}</text>'


def grid(y):
    return f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def axis(scale, least, most, start, end):
    low, high = scale(least), scale(most)
    return lambda value: start + (scale(value) - low) / ((high - low) or 1) * (end - start)


def decades(least, most):
    return [10.0**power for power in range(math.floor(math.log10(least)), max(math.ceil(math.log10(most)), 1 + math.floor(math.log10(least))) + 1)]


def even_ticks(most):
    step = 10.0 ** math.floor(math.log10(most))
    step = next(step * part for part in (0.2, 0.5, 1, 2) if most / (step * part) <= 6)
    return [step * at for at in range(math.ceil(most / step) + 1)]


def apart(ends, lowest, least=17):
    """The ends from top to bottom, so far apart that names do not lie on each other."""
    placed = []
    for y, one in sorted(ends, key=lambda end: end[0]):
        placed.append([max(y, placed[-1][0] + least) if placed else y, one])
    beyond = max(placed[-1][0] - lowest, 0)
    for at in range(len(placed) - 1, -1, -1):
        limit = placed[at + 1][0] - least if at + 1 < len(placed) else placed[at][0] - beyond
        placed[at][0] = min(placed[at][0], limit)
    return placed


def short(value):
    """A number as ticks have it: 4,096, but 10 k."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size and value % size == 0:
            return f"{value / size:,g}{unit}"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
