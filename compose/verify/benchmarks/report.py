"""Rounds of measurements, and their report: a table for people, then lines for programs."""

import dataclasses
import os
import statistics


@dataclasses.dataclass
class Round:
    """
    One server in one round.

    rate: answers a second. shares: seconds of CPU per second, by name. cost: the server's CPU seconds per answer.
    latencies: milliseconds.
    """

    rate: float
    shares: dict
    cost: float = 0
    latencies: list = ()


def take_turns(count, subjects):
    """Calls functions in turn, this many times; returns their results by name."""
    results = {name: [] for name in subjects}
    for number in range(count):
        # Each round starts with a different one, so that none is always the first after a pause.
        names = list(subjects)
        for name in names[number % len(names):] + names[:number % len(names)]:
            results[name].append(subjects[name]())
    return results


def median_ratio(ours, theirs):
    """Returns the median of the quotients of each round."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs))


def median_rate(rounds):
    return statistics.median(result.rate for result in rounds)


def median_cost(rounds):
    return statistics.median(result.cost for result in rounds)


def percentile(values, part):
    """
    >>> percentile([3, 1, 2], 0.5), percentile([1], 0.99), percentile(range(100), 0.99)
    (2, 1, 99)
    """
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))]


class Report:
    def __init__(self):
        self.rates, self.figures, self.notes = [], [], []

    def note(self, text):
        self.notes.append(text)

    def figure(self, name, value, least=None, most=None, note=None):
        """least, most: the target. note: anything that the name does not say."""
        wanted = ""
        if least is not None:
            wanted = f"at least {least:g}: {'met' if value >= least else 'MISSED'}"
        elif most is not None:
            wanted = f"at most {most:g}: {'met' if value <= most else 'MISSED'}"
        self.figures.append((name, value, wanted))
        if note:
            self.note(f"{name}: {note}")

    def rate(self, name, rounds):
        """Adds one server's answers a second over all rounds, with its use of the processors."""
        rates = [result.rate for result in rounds]
        shares = {who: statistics.median(result.shares[who] for result in rounds) for who in rounds[0].shares}
        self.rates.append((name, statistics.median(rates), min(rates), max(rates), shares))

    def show(self):
        if not self.figures:
            return
        cores = os.cpu_count() or 1
        if self.rates:
            print(f"\n{'':18} {'a second':>9} {'least':>9} {'most':>9}   seconds of CPU per second ({cores} cores)")
        for name, median, least, most, shares in self.rates:
            total = sum(shares.values())
            text = ", ".join(f"{who} {share:.2f}" for who, share in shares.items())
            busiest = max((who for who in shares if who != "others"), key=shares.get)
            # If processors are idle, a single thread limits the rate.
            full = total > 0.93 * cores
            bound = "no idle processor, most time goes to" if full else "processors idle, the bottleneck is"
            print(f"{name:18} {median:9.0f} {least:9.0f} {most:9.0f}   {text}; {bound} {busiest}")
        print()
        for name, value, wanted in self.figures:
            print(f"{name:30} {value:12.2f}   {wanted}".rstrip())
        for note in self.notes:
            print(f"  {note}")
        print()
        for name, value, _ in self.figures:
            print(f"BENCH {name} {value:.4g}" if abs(value) < 1000 else f"BENCH {name} {value:.0f}")
