"""The lines of all series on one page, each as a multiple of its first value."""

import plot

LEGEND = 320
# Above this a line grows.
LIMIT = 1.25


def svg(panels):
    """Returns the drawing. panels: (series, lines), with the points (number, value) of each line by name."""
    parts = []
    for number, (series, lines) in enumerate(panels):
        counts = sorted({count for points in lines.values() for count, _ in points})
        drawn = [(f"{name.replace('_', ' ')}: {points[0][1]:,.4g} to {points[-1][1]:,.4g} {series.UNITS[name]}",
                  [(counts.index(count), value / points[0][1]) for count, value in points])
                 for name, points in lines.items()]
        drawn.append((f"{LIMIT:g} times: above, it grows", [(0, LIMIT), (len(counts) - 1, LIMIT)]))
        labels = [f"{count:,}" for count in counts]
        panel = plot.svg(f"The more {series.X}", drawn, series.X, "times the first value", labels, LEGEND)
        parts.append(panel.replace("<svg ", f'<svg y="{number * plot.HEIGHT}" ', 1))
    width, height = plot.width(LEGEND), plot.HEIGHT * len(panels)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}">\n{"".join(parts)}</svg>\n')
