"""What the pusher says of itself, against what the simulator saw: the one place that knows the names of its metrics."""

import urllib.request


class Metrics:
    """One reading of `/metrics`: values by name with labels, as they are written."""

    def __init__(self, text):
        lines = [line for line in text.splitlines() if line and line[0] != "#"]
        self.values = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    @classmethod
    def of(cls, stack):
        with urllib.request.urlopen(f"{stack.env['OPERATIONS_PUSHER']}/metrics", timeout=10) as answer:
            return cls(answer.read().decode())

    def push(self, outcome):
        """
        >>> Metrics('waybill_pushes_total{outcome="delivered"} 7').push("delivered")
        7
        """
        return int(self.values.get(f'waybill_pushes_total{{outcome="{outcome}"}}', 0))


class Verdicts:
    """What became of notifications between two readings."""

    def __init__(self, before, after):
        def grown(outcome):
            return after.push(outcome) - before.push(outcome)

        self.delivered, self.retired = grown("delivered"), grown("retired")
        self.dropped, self.retried, self.merged = grown("dropped"), grown("retried"), grown("merged")

    def shown(self):
        return [(f"pusher.{name}", value) for name, value in vars(self).items()]


def judge_verdicts(verdicts, seen, findings):
    """
    Whether no verdict is missing or double.

    Each notification that APNs took is delivered, but for answers that were lost with their connection or came too
    late; each registration that was taken off was retired once; each answer that says never is dropped once, and so is
    each notification that was given up.

    seen: accepted, perhaps_lost, ended, refused, given_up.
    """
    if not 0 <= seen["accepted"] - verdicts.delivered <= seen["perhaps_lost"]:
        findings.add(
            "verdicts", f"APNs took {seen['accepted']}, delivered are {verdicts.delivered}; at most "
            f"{seen['perhaps_lost']} answers may have been lost")
    if verdicts.retired != seen["ended"]:
        findings.add("verdicts", f"{seen['ended']} registrations ended, retired are {verdicts.retired}")
    if verdicts.dropped != seen["refused"] + seen["given_up"]:
        findings.add(
            "verdicts", f"APNs refused {seen['refused']} for good, {seen['given_up']} had to be given up, dropped are "
            f"{verdicts.dropped}")
