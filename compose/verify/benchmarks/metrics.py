"""The metrics that a service exposes."""

import re

from client import ask

SERIES = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')


class Metrics:
    """One reading of `/metrics`. series: (name, labels, value)."""

    def __init__(self, text):
        found = (SERIES.match(line) for line in text.splitlines())
        self.series = [(line[1], dict(LABEL.findall(line[2] or "")), float(line[3])) for line in found if line]

    @classmethod
    def of(cls, url):
        """Reads the metrics at the URL of a service's operations listener."""
        return cls(ask(url, "/metrics"))

    def total(self, name, **labels):
        """
        Returns the rounded sum of all series that have at least these labels.

        >>> metrics = Metrics('# TYPE a counter\\na{b="c",d="e"} 7\\na{b="c",d="f"} 2\\nab 9')
        >>> metrics.total("a", b="c"), metrics.total("a", d="e"), metrics.total("ab"), metrics.total("x")
        (9, 7, 9, 0)
        """
        return round(sum(
            value for found, own, value in self.series
            if found == name and all(own.get(label) == text for label, text in labels.items())))

    def by(self, name, label):
        """
        Returns sums by the values of a label.

        >>> Metrics('a{b="c",d="e"} 7\\na{b="c",d="f"} 2').by("a", "b")
        {'c': 9}
        """
        values = {own.get(label) for found, own, _ in self.series if found == name} - {None, ""}
        return {text: self.total(name, **{label: text}) for text in values}
