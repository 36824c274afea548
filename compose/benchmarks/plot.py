"""Lines over time as SVG, readable on a light and on a dark page."""

import collections
from xml.sax.saxutils import escape

WIDTH, PANEL, LEFT, RIGHT, TOP, GAP, BOTTOM = 760, 190, 72, 120, 56, 56, 48
INNER = WIDTH - LEFT - RIGHT
COLOURS = (("#0b6bcb", "#6cb2ff"), ("#c2410c", "#ff9d5c"), ("#15803d", "#5fd38a"), ("#7e22ce", "#c9a0ff"))
DASHES = ("", "8 4", "2 3", "10 3 2 3")


# One pair of axes; lines are (name, [(x, y), …]).
Panel = collections.namedtuple("Panel", "title lines")


def svg(title, panels, x_title):
    """Returns the drawing. All panels share the x axis; lines with the same name have the same colour."""
    names = list(dict.fromkeys(name for panel in panels for name, _ in panel.lines))
    height = TOP + len(panels) * PANEL + (len(panels) - 1) * GAP + BOTTOM
    right = steps(max((x for panel in panels for _, line in panel.lines for x, _ in line), default=1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        style(len(names)),
        f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>',
    ]
    for index, panel in enumerate(panels):
        parts += draw(panel, TOP + index * (PANEL + GAP), right, names)
    parts.append(f'<text x="{LEFT + INNER / 2}" y="{height - 10}" text-anchor="middle">{escape(x_title)}</text>')
    parts += legend(names)
    return "\n".join(parts + ["</svg>"]) + "\n"


def style(count):
    def rules(mode):
        return "".join(f".l{i}{{stroke:{COLOURS[i % len(COLOURS)][mode]}}}" for i in range(count))

    return (
        "<style>text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}"
        ".axis{stroke:#666}.grid{stroke:#8885;stroke-width:.5}"
        f".line{{fill:none;stroke-width:2;stroke-linejoin:round}}{rules(0)}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.axis{stroke:#aaa}" + rules(1) + "}</style>")


def draw(panel, top, right, names):
    upper = steps(max((y for _, line in panel.lines for _, y in line), default=1))

    def place(x, y):
        return LEFT + INNER * x / right[-1], top + PANEL - PANEL * y / upper[-1]

    yield f'<text x="{LEFT}" y="{top - 8}">{escape(panel.title)}</text>'
    for value in upper:
        _, y = place(0, value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + INNER}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,g}</text>'
    for value in right:
        x, y = place(value, 0)
        yield f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{value:,g}</text>'
    yield f'<path class="axis" fill="none" d="M{LEFT} {top}V{top + PANEL}H{LEFT + INNER}"/>'
    for name, line in panel.lines:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        yield f'<polyline class="line {look(names, name)} points="{points}"/>'


def look(names, name):
    """Returns the end of the attribute `class`, and dashes for readers who cannot distinguish the colours."""
    number = names.index(name)
    dash = DASHES[number % len(DASHES)]
    return f'l{number}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def legend(names):
    x = WIDTH - RIGHT + 16
    for number, name in enumerate(names):
        y = TOP + 10 + 20 * number
        yield f'<line class="line {look(names, name)} x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}"/>'
        yield f'<text x="{x + 32}" y="{y + 4}">{escape(name)}</text>'


def steps(most):
    """Returns round numbers from 0 to the first that is not below `most`."""
    size = 10 ** len(str(int(most))) / 100 if most >= 1 else 0.1
    step = next(size * factor for factor in (1, 2, 5, 10, 20, 50, 100) if size * factor * 5 >= most)
    count = max(1, -int(-most // step))
    return [step * number for number in range(count + 1)]
