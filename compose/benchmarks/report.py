"""What was measured: a table for people, then lines for programs."""

import os
import statistics


class Report:
    def __init__(self):
        self.rates, self.figures, self.notes = [], [], []

    def note(self, text):
        self.notes.append(text)

    def figure(self, name, value, target=None, way=None):
        self.figures.append((name, value, target, way))

    def rate(self, name, rounds):
        """What one server answered, round by round, and who used the processors meanwhile."""
        rates = [result.rate for result in rounds]
        shares = {who: statistics.median(result.shares[who] for result in rounds) for who in rounds[0].shares}
        self.rates.append((name, statistics.median(rates), min(rates), max(rates), shares))

    def show(self):
        cores = os.cpu_count() or 1
        if self.rates:
            print(f"\n{'':18} {'a second':>9} {'least':>9} {'most':>9}   seconds of CPU per second ({cores} cores)")
        for name, median, least, most, shares in self.rates:
            total = sum(shares.values())
            text = ", ".join(f"{who} {share:.2f}" for who, share in shares.items())
            busiest = max((who for who in shares if who != "others"), key=shares.get)
            # With idle processors it is a single thread that bounds the rate.
            full = total > 0.93 * cores
            bound = "no idle processor, most time goes to" if full else "processors idle, the bottleneck is"
            print(f"{name:18} {median:9.0f} {least:9.0f} {most:9.0f}   {text}; {bound} {busiest}")
        print()
        for name, value, target, way in self.figures:
            wanted = ""
            if target is not None:
                met = value >= target if way == "at least" else value <= target
                wanted = f"{way} {target:g}: {'met' if met else 'MISSED'}"
            print(f"{name:30} {value:12.2f}   {wanted}")
        for note in self.notes:
            print(f"  {note}")
        print()
        for name, value, _, _ in self.figures:
            print(f"BENCH {name} {value:.4g}" if abs(value) < 1000 else f"BENCH {name} {value:.0f}")
