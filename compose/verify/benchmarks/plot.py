"""Lines over time as SVG, readable on a light and on a dark page."""

from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 800, 330, 64, 190, 56, 44
INNER, PANEL = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
COLOURS = (
    ("#0b6bcb", "#6cb2ff"), ("#c2410c", "#ff9d5c"), ("#15803d", "#5fd38a"), ("#7e22ce", "#c9a0ff"),
    ("#0f766e", "#4fd1c5"), ("#555", "#bbb"))
DASHES = ("", "8 4", "2 3", "10 3 2 3", "16 4", "1 5")


def svg(title, lines, x_title, y_title, labels=None, legend=RIGHT):
    """
    Returns the drawing. lines: (name, [(x, y), …]). labels: the texts at x = 0, 1, …; by default numbers.
    legend: the width of the names.
    """
    right = range(len(labels)) if labels else steps(max((x for _, line in lines for x, _ in line), default=1))
    upper = steps(max((y for _, line in lines for _, y in line), default=1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width(legend)} {HEIGHT}" '
        f'width="{width(legend)}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(title)}">',
        style(len(lines)),
        f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>',
        f'<text x="{LEFT}" y="{TOP - 10}">{escape(y_title)}</text>',
        f'<text x="{LEFT + INNER / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_title)}</text>',
    ]
    return "\n".join([*parts, *draw(lines, right, upper, labels), "</svg>"]) + "\n"


def width(legend):
    return LEFT + INNER + legend


def style(count):
    def rules(mode):
        return "".join(f".l{i}{{stroke:{COLOURS[i % len(COLOURS)][mode]}}}" for i in range(count))

    return (
        "<style>text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}"
        ".axis{stroke:#666}.grid{stroke:#8885;stroke-width:.5}"
        f".line{{fill:none;stroke-width:2;stroke-linejoin:round}}{rules(0)}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.axis{stroke:#aaa}" + rules(1) + "}</style>")


def draw(lines, right, upper, labels):
    def place(x, y):
        return LEFT + INNER * x / (right[-1] or 1), TOP + PANEL - PANEL * y / upper[-1]

    for value in upper:
        _, y = place(0, value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + INNER}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,g}</text>'
    for value in right:
        x, y = place(value, 0)
        yield f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{y:.1f}"/>'
        text = labels[value] if labels else f"{value:,g}"
        yield f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{text}</text>'
    yield f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{TOP + PANEL}H{LEFT + INNER}"/>'
    for number, (name, line) in enumerate(lines):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        yield f'<polyline class="line {look(number)} points="{points}"/>'
        x, y = LEFT + INNER + 16, TOP + 10 + 20 * number
        yield f'<line class="line {look(number)} x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}"/>'
        yield f'<text x="{x + 32}" y="{y + 4}">{escape(name)}</text>'


def look(number):
    """Returns the end of the attribute `class`, and dashes for readers who cannot distinguish the colours."""
    dash = DASHES[number % len(DASHES)]
    return f'l{number}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def steps(most):
    """Returns round numbers from 0 to the first that is not below `most`."""
    size = 10 ** len(str(int(most))) / 100 if most >= 1 else 0.1
    step = next(size * factor for factor in (1, 2, 5, 10, 20, 50, 100) if size * factor * 5 >= most)
    count = max(1, -int(-most // step))
    return [step * number for number in range(count + 1)]
