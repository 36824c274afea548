"""
The rules of `compose/bench faults --once` besides those of all runs: each device has exactly one change, so that each
loss and each duplicate shows.

A duplicate is explained only by an answer that the simulator lists as perhaps not read (`GET /unheard`), or by a worker
that was killed before it had committed the offset of a change that it may still have held. Explanations are counted
and printed; the former are bounded in number, the latter in time.
"""

from faults_judge import is_final
from report import percentile

# The most seconds from the end of a brown-out until a device is notified.
LONGEST_WAIT = 60
# The same from its change, while there is a fault a second: of 20,000 devices some have six failures in a row, each of
# which takes up to 10 s, with pauses that double from 1 s to 30 s (RetrySchedule.swift), and a brand whose connections
# are short-lived waits up to 15 s for the next one (Backoff.swift).
LONGEST_WAIT_AMID_FAULTS = 150
# The share of the devices that may be notified twice because an answer was not read: a fault that ends a connection
# loses the answers of about a second.
UNHEARD_SHARE = 0.05
# The additional share for each kill: answers that were in flight to the killed worker.
KILLED_SHARE = 0.02
# The most seconds from a change to a kill after which it may be repeated, because its offset was not committed: a
# device under retry holds the offset for up to 30 s until it moves to the pending topic, and commits follow seconds
# later.
HELD_SECONDS = 40


def is_killed(changed, places, before, again, rebalances):
    """
    Returns true if a delivery may have been repeated because a worker was killed in between.

    changed: the moment of the change; places: (topic, partition, offset) of its records. before, again: the moments of
    the deliveries. rebalances: (moment, (topic, partition) -> committed offset) of each kill and each restart of a
    worker.

    Killed before one of its offsets was committed, and after both were:

    >>> places = [("orders", 0, 7), ("pending", 3, 5)]
    >>> is_killed(1000, places, 1010, 9000, [(2000, {("orders", 0): 8, ("pending", 3): 5})])
    True
    >>> is_killed(1000, places, 1010, 9000, [(2000, {("orders", 0): 8, ("pending", 3): 6})])
    False

    Killed after the second delivery, and when no worker holds the change any longer:

    >>> is_killed(1000, places, 1010, 9000, [(9500, {("orders", 0): 7})])
    False
    >>> is_killed(1000, places, 1010, 49_000, [(42_000, {("orders", 0): 7})])
    False
    """
    return any(
        before <= moment <= again and moment - changed <= HELD_SECONDS * 1000
        and any(committed.get((topic, partition), 0) <= offset for topic, partition, offset in places)
        for moment, committed in rebalances)


def judge_waits(devices, record, calm, findings):
    """
    Checks that each device was notified soon after its change, or after the brown-out.

    calm: the moment at which the brown-out ended, 0 without one.
    - Returns: the seconds from each change to the request that got a final answer.

    >>> from devices import Device
    >>> from faults_judge import Findings, Record
    >>> from simulator import Delivery
    >>> device = Device(7, ["t/o"])
    >>> device.events = [(1000, "change")]
    >>> def judged(*moments, calm=0):
    ...     findings = Findings()
    ...     requests = [Delivery(1, device.token, 200, None, moment) for moment in moments]
    ...     return judge_waits([device], Record(requests, 0), calm, findings), list(findings.by_rule)
    >>> judged(152_000), judged(150_000), judged()
    (([151.0], ['late']), ([149.0], []), ([], []))
    >>> judged(63_000, calm=2_000), judged(62_000, calm=2_000)
    (([62.0], ['late']), ([61.0], []))
    """
    waits = []
    for device in devices:
        changed = device.events[0][0]
        told = min((request.moment for request in record.requests(device)
                    if request.moment >= changed and is_final(request)), default=None)
        if told is None:
            continue
        waits.append((told - changed) / 1000)
        wait = (told - max(changed, min(told, calm))) / 1000
        if wait > (LONGEST_WAIT if calm else LONGEST_WAIT_AMID_FAULTS):
            findings.add("late", (
                f"{record.title(device)} was told {wait:.1f} s after its change or the end of the brown-out: "
                f"{record.trail(device)}"))
    return waits


def judge_excuses(unheard, devices, kills, findings):
    """
    Checks that few duplicates are explained by answers that were not read.

    >>> from faults_judge import Findings
    >>> def judged(unheard, kills):
    ...     findings = Findings()
    ...     judge_excuses(unheard, 100, kills, findings)
    ...     return findings.by_rule["excuses"]
    >>> judged(5, 0), judged(7, 1), judged(50, 99)
    ([], [], [])
    >>> judged(6, 0), judged(51, 99)
    (['6 doubles are unheard, at most 5 may be'], ['51 doubles are unheard, at most 50 may be'])
    """
    # A kill also ends connections with answers in flight.
    most = int(min(0.5, UNHEARD_SHARE + KILLED_SHARE * kills) * devices)
    if unheard > most:
        findings.add("excuses", f"{unheard} doubles are unheard, at most {most} may be")


def judge_ends(changes, verdicts, findings):
    """
    Checks that each change has exactly one end: delivered, a dead letter, the registration retired, or coalesced.

    >>> from faults_judge import Findings
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


def figures(excuses, waits):
    """Returns the figures as (name, value)."""
    waits = waits or [0]
    return [(f"excused_{name}", excuses[name]) for name in ("unheard", "killed")] + [
        ("wait_p50_s", round(percentile(waits, 0.5), 2)), ("wait_p99_s", round(percentile(waits, 0.99), 2)),
        ("wait_most_s", round(max(waits), 2))]
