"""What the pusher says of itself, against what the simulator saw: the one place that knows the names of its metrics."""

import re
import urllib.request

SERIES = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')


class Metrics:
    """One reading of `/metrics`."""

    def __init__(self, text):
        # (name, labels, value)
        self.series = []
        for line in text.splitlines():
            found = SERIES.match(line)
            if found:
                self.series.append((found[1], dict(LABEL.findall(found[2] or "")), float(found[3])))

    @classmethod
    def of(cls, stack):
        with urllib.request.urlopen(f"{stack.env['OPERATIONS_PUSHER']}/metrics", timeout=10) as answer:
            return cls(answer.read().decode())

    def total(self, name, **labels):
        """
        The sum of all series with such labels, whatever others they have.

        >>> metrics = Metrics('# TYPE a counter\\na{b="c",d="e"} 7\\na{b="c",d="f"} 2\\nab 9')
        >>> metrics.total("a", b="c"), metrics.total("a", d="e"), metrics.total("ab"), metrics.total("x")
        (9, 7, 9, 0)
        """
        return round(sum(
            value for found, own, value in self.series
            if found == name and all(own.get(label) == text for label, text in labels.items())))

    def by(self, name, label):
        """
        Sums by the values of a label.

        >>> Metrics('a{b="c",d="e"} 7\\na{b="c",d="f"} 2').by("a", "b")
        {'c': 9}
        """
        return {text: self.total(name, **{label: text}) for text in {own.get(label) for found, own, _ in self.series
                                                                     if found == name} if text}


class Verdicts:
    """What became of notifications between two readings."""

    def __init__(self, before, after):
        def grown(name, **labels):
            return after.total(name, **labels) - before.total(name, **labels)

        self.delivered = grown("waybill_pushes_total", outcome="delivered")
        self.retired = grown("waybill_pushes_total", outcome="retired") + grown("waybill_push_tokens_retired_total")
        self.dropped = grown("waybill_pushes_total", outcome="dropped")
        self.retried = grown("waybill_pushes_total", outcome="retried")
        # One name after the other, as the pusher has had them.
        self.merged = sum(grown("waybill_pushes_total", outcome=outcome) for outcome in ("merged", "coalesced"))
        self.unknown = grown("waybill_pushes_total", outcome="unknown-token")
        self.letters = grown("waybill_push_dead_letters_total")
        # By status as text; empty for a pusher that does not tell.
        self.answers = {
            status: grown("waybill_apns_requests_total", status=status)
            for status in after.by("waybill_apns_requests_total", "status")}

    def shown(self):
        shown = [(f"pusher.{name}", value) for name, value in vars(self).items() if name != "answers"]
        return shown + [(f"pusher.status_{status}", count) for status, count in sorted(self.answers.items())]


def judge_verdicts(verdicts, seen, findings):
    """
    Whether no verdict is missing or double.

    Each notification that APNs took is delivered, but for answers that were lost with their connection or came too
    late; each registration that was taken off was retired once; each answer that says never is dropped once, and so is
    each notification that was given up.

    For each status as well: what APNs answered is what the pusher counted, but for the lost ones.

    seen: statuses, accepted, perhaps_lost, ended, tombstones, refused, given_up.
    """
    if not 0 <= seen["accepted"] - verdicts.delivered <= seen["perhaps_lost"]:
        findings.add(
            "verdicts", f"APNs took {seen['accepted']}, delivered are {verdicts.delivered}; at most "
            f"{seen['perhaps_lost']} answers may have been lost")
    # Who comes back leaves a tombstone; one that was overtaken by a registration ended nothing.
    if not seen["ended"] <= verdicts.retired <= seen["tombstones"]:
        findings.add(
            "verdicts", f"{seen['ended']} registrations are gone, {seen['tombstones']} tombstones were written, "
            f"retired are {verdicts.retired}")
    for status, count in sorted(verdicts.answers.items()):
        answered = seen["statuses"].get(status, 0)
        if status.isdigit() and not 0 <= answered - count <= seen["perhaps_lost"]:
            findings.add("verdicts", f"APNs answered {status} {answered} times, the pusher counted {count}")
    if verdicts.dropped + verdicts.unknown != seen["refused"] + seen["given_up"]:
        findings.add(
            "verdicts", f"APNs refused {seen['refused']} for good, {seen['given_up']} had to be given up, dropped are "
            f"{verdicts.dropped}, unknown {verdicts.unknown}")
