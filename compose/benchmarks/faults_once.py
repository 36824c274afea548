"""
The rules of `compose/bench faults --once`: each device has exactly one change, so each loss and each double shows.

Of several deliveries to a device, one is the telling and each other one a double. A double is explained only by an
answer that the simulator lists as perhaps not read (`GET /unheard`), or by a worker that was killed before it had
committed the offset of a change which it may still have held. Explanations are counted and printed; the former are
bounded in number, the latter in time.
"""

import collections
import statistics

from faults_judge import REFUSALS, Findings
from report import percentile

# A device is told at most so many seconds after the end of a brown-out.
LONGEST_WAIT = 60
# The same after its change, while each second brings another fault: of 20,000 devices some have six failures in a row,
# each of which takes up to 10 s, with pauses between them that double from 1 s to 30 s (RetrySchedule.swift), and a
# brand whose connections die young waits up to 15 s for the next one (Backoff.swift).
LONGEST_WAIT_AMID_FAULTS = 150
# The part of the devices that may be told twice because an answer was not read: a fault that ends a connection loses
# the answers of about a second.
UNHEARD_SHARE = 0.05
# The part of the devices whose answers were on their way to a worker that was killed: per kill.
KILLED_SHARE = 0.02
# A worker that is killed repeats what it told after an offset that it held: a device under retry holds that of its
# change for up to 30 s before it moves to the pending topic, and offsets are committed some seconds later.
HELD_SECONDS = 40


class Once:
    """
    The requests for each device's only change.

    changes: push token -> (moment of the change, places of its records: (topic, partition, offset)). deliveries: (push
    token, status, reason, moment, connection) since the load began; first: the sequence of the first of them. unheard:
    sequences. rebalances: (moment, (topic, partition) -> committed offset) each time that a worker was killed or came
    back.

    >>> def judged(deliveries, unheard=(), rebalances=(), calm=0):
    ...     findings = Findings()
    ...     places = [("orders", 0, 7), ("pending", 3, 5)]
    ...     requests = [("a", status, None, moment, 1) for status, moment in deliveries]
    ...     once = Once({"a": (1000, places)}, requests, 1, unheard, rebalances, calm)
    ...     once.judge(findings)
    ...     return {rule: len(texts) for rule, texts in findings.by_rule.items()}, dict(+once.excuses)
    >>> judged([(200, 1010)]), judged([(503, 1010), (200, 2000)])
    (({}, {}), ({}, {}))

    A change of which nothing came, one that only failed, and a delivery that came before the change:

    >>> judged([])[0], judged([(503, 1010)])[0], judged([(200, 900)])[0]
    ({'told': 1}, {'told': 1}, {'told': 1, 'double': 1})

    A double without a reason; with an answer that was not read; after a kill before one of its offsets was committed,
    and after:

    >>> judged([(200, 1010), (200, 1020)])
    ({'double': 1}, {})
    >>> judged([(200, 1010), (200, 1020)] + [(200, 1030)], unheard=[1])
    ({'double': 1, 'excuses': 1}, {'unheard': 1})
    >>> judged([(200, 1010), (200, 9000)], rebalances=[(2000, {("orders", 0): 8, ("pending", 3): 5})])
    ({}, {'killed': 1})
    >>> judged([(200, 1010), (200, 9000)], rebalances=[(2000, {("orders", 0): 8, ("pending", 3): 6})])
    ({'double': 1}, {})

    The same of a change that no worker holds any more:

    >>> judged([(200, 1010), (200, 49_000)], rebalances=[(42_000, {("orders", 0): 7})])
    ({'double': 1}, {})

    A request in a connection that was silent is recorded when that ends, after the one that was sent in its place; and
    two deliveries whose answers were read are a double whatever came between them:

    >>> judged([(200, 1010), (200, 1020)], unheard=[2])
    ({'excuses': 1}, {'unheard': 1})
    >>> judged([(200, 1010), (200, 1020), (200, 1030)], unheard=[2])[0]["double"]
    1

    A change that is told late, and one that had to wait for the end of a brown-out:

    >>> judged([(200, 152_000)])[0], judged([(200, 150_000)])[0]
    ({'late': 1}, {})
    >>> judged([(200, 63_000)], calm=2_000)[0], judged([(200, 62_000)], calm=2_000)[0]
    ({'late': 1}, {})
    """

    def __init__(self, changes, deliveries, first, unheard=(), rebalances=(), calm=0):
        self.changes, self.unheard, self.rebalances, self.calm = changes, set(unheard), rebalances, calm
        self.excuses, self.waits = collections.Counter(), []
        self.by_token = collections.defaultdict(list)
        for index, (token, status, reason, moment, _) in enumerate(deliveries):
            self.by_token[token].append((first + index, status, reason, moment))

    def judge(self, findings):
        for token, (changed, places) in self.changes.items():
            requests = self.by_token.get(token, [])
            ends = [request for request in requests
                    if request[3] >= changed and (request[1] == 200 or request[1:3] in REFUSALS)]
            if ends:
                self.waited(token, changed, ends[0][3], requests, findings)
            else:
                findings.add("told", f"{title(token)} was not told of its change: {trail(changed, requests)}")
            accepted = [request for request in requests if request[1] == 200]
            # An answer that was not read is that of the telling if there is no other.
            tellings = [request for request in accepted if request[0] not in self.unheard] or accepted[:1]
            repeated = list(zip(tellings, tellings[1:]))
            killed = sum(self.is_killed(changed, *pair, places) for pair in repeated)
            self.excuses["unheard"] += len(accepted) - len(tellings)
            self.excuses["killed"] += killed
            doubles = len(repeated) - killed + sum(request[3] < changed for request in accepted)
            if doubles:
                findings.add("double", f"{title(token)} was told without a reason: {trail(changed, requests)}")
        kills = len(self.rebalances) // 2
        # A kill also ends connections whose answers were on their way.
        self.bound("unheard", min(0.5, UNHEARD_SHARE + KILLED_SHARE * kills), findings)

    def waited(self, token, changed, told, requests, findings):
        wait = (told - max(changed, min(told, self.calm))) / 1000
        self.waits.append((told - changed) / 1000)
        if wait > (LONGEST_WAIT if self.calm else LONGEST_WAIT_AMID_FAULTS):
            findings.add("late", (
                f"{title(token)} was told {wait:.1f} s after its change or the end of the brown-out: "
                f"{trail(changed, requests)}"))

    def is_killed(self, changed, before, request, places):
        """True if a worker may have repeated this because it was killed."""
        return any(
            before[3] <= moment <= request[3] and moment - changed <= HELD_SECONDS * 1000
            and any(committed.get((topic, partition), 0) <= offset for topic, partition, offset in places)
            for moment, committed in self.rebalances)

    def bound(self, excuse, share, findings):
        most = int(share * len(self.changes))
        if self.excuses[excuse] > most:
            findings.add("excuses", f"{self.excuses[excuse]} doubles are {excuse}, at most {most} may be")

    def figures(self):
        """(name, value) for people and programs."""
        waits = self.waits or [0]
        shown = [(f"excused_{name}", self.excuses[name]) for name in ("unheard", "killed")]
        return shown + [
            ("wait_p50_s", round(statistics.median(waits), 2)),
            ("wait_p99_s", round(percentile(waits, 0.99), 2)), ("wait_most_s", round(max(waits), 2))]


def judge_ends(changes, verdicts, findings):
    """
    Each change must have exactly one end: delivered, a dead letter, or the end of the registration.

    >>> class Verdicts: delivered, letters, retired, coalesced = 98, 1, 1, 0
    >>> findings = Findings()
    >>> judge_ends(100, Verdicts, findings)
    >>> judge_ends(101, Verdicts, findings)
    >>> dict(findings.by_rule)
    {'ends': ['101 changes came to 100 ends: 98 delivered, 1 dead letters, 1 retired, 0 coalesced']}
    """
    ends = verdicts.delivered + verdicts.letters + verdicts.retired + verdicts.coalesced
    if ends != changes:
        findings.add("ends", (
            f"{changes} changes came to {ends} ends: {verdicts.delivered} delivered, {verdicts.letters} dead letters, "
            f"{verdicts.retired} retired, {verdicts.coalesced} coalesced"))


def title(token):
    return f"the device with push token …{token[-16:]}"


def trail(changed, requests):
    """
    The requests of a device, in seconds since its change.

    >>> trail(1000, [(1, 503, "Shutdown", 1500), (2, 200, None, 2000)])
    '0.500 Shutdown; 1.000 200'
    """
    return "; ".join(f"{(moment - changed) / 1000:.3f} {reason or status or 'silent'}"
                     for _, status, reason, moment in requests[-8:]) or "no request"
