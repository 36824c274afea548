"""
The checks of a faults run: each device is notified, none without a reason, and the right ones are registered.

With --once each device has exactly one change, so that each loss and each duplicate shows. A duplicate is explained
only by an answer that the simulator lists as perhaps not read (`GET /unheard`), or by a worker that was killed before
it had committed the offset of a change that it may still have held. Explanations are counted and printed; the former
are bounded in number, the latter in time.
"""

import collections
import json

# The final refusals of APNs: the device cannot be notified.
REFUSALS = (
    (410, "Unregistered"), (410, "ExpiredToken"), (400, "BadDeviceToken"), (400, "DeviceTokenNotForTopic"))
# Memory may grow by this factor plus the megabytes that a busy allocator keeps.
GROWTH, SPARE_MB = 1.25, 16
# The most connections that a credential may have open at the end.
CONNECTIONS = 8
RECONNECTS = "rapidReconnects"
# The most seconds from the end of a brown-out until a device is notified.
LONGEST_WAIT = 60
# The same from its change, while there is a fault a second: of 20,000 devices some have six failures in a row, each of
# which takes up to 10 s, with pauses that double from 1 s to 30 s (RetrySchedule.swift), and a brand whose connections
# are short-lived waits up to 15 s for the next one (ConnectBackoff.swift).
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


def is_final(delivery):
    return delivery.status == 200 or (delivery.status, delivery.reason) in REFUSALS


def unnotified(events, requests):
    """
    Returns the name of a device's last event if no request since then had a final answer, else None.

    events: (moment, name); requests: those with its current push token.

    >>> from simulator import Delivery
    >>> def left(events, *answers):
    ...     return unnotified(events, [Delivery(1, "a", *answer) for answer in answers])
    >>> left([(10, "change"), (20, "change")], (200, None, 25))
    >>> left([(10, "change"), (20, "registration")], (200, None, 15), (503, "Shutdown", 25))
    'registration'
    >>> left([(10, "change")], (410, "Unregistered", 12))
    >>> left([])
    """
    moment, what = max(events, default=(0, None))
    return None if any(request.moment >= moment and is_final(request) for request in requests) else what


def doubles(events, deliveries):
    """
    Returns the deliveries that no event accounts for, as indices of `deliveries`.

    events: moments; deliveries: moments of accepted ones; both ascending. Each event accounts for one delivery at most.

    >>> doubles([10, 20], [11, 21])
    []
    >>> doubles([10, 20], [11, 12, 21])
    [1]
    >>> doubles([10, 20, 30], [31])
    []
    """
    credit, place, found = 0, 0, []
    for index, moment in enumerate(deliveries):
        while place < len(events) and events[place] <= moment:
            place += 1
            credit += 1
        if credit > 0:
            credit -= 1
        else:
            found.append(index)
    return found


class Findings:
    """Differences by rule."""

    def __init__(self):
        self.by_rule = collections.defaultdict(list)

    def add(self, rule, text):
        self.by_rule[rule].append(text)

    @property
    def count(self):
        return sum(len(texts) for texts in self.by_rule.values())


class Record:
    """
    The requests to the simulator, by device.

    begin: the moment that `trail` counts from. unheard: the sequences of requests whose answers the pusher may not have
    read; lost: their number.
    """

    def __init__(self, deliveries, begin, unheard=()):
        self.begin, self.unheard, self.by_device = begin, set(unheard), collections.defaultdict(list)
        for delivery in deliveries:
            # The last eight digits of a push token are its generation.
            self.by_device[delivery.token[:-8]].append(delivery)
        self.lost = sum(delivery.sequence in self.unheard for delivery in deliveries)
        self.statuses = collections.Counter(str(delivery.status or "none") for delivery in deliveries)

    def requests(self, device):
        return self.by_device.get(device.push_token[:-8], [])

    def title(self, device):
        return f"device {device.number}" + (f" ({device.story.name})" if device.story else "")

    def trail(self, device):
        """Returns the last ten events and answers of a device, with the seconds since `begin`."""
        happened = device.events + [
            (request.moment, f"APNs {request.reason or request.status or 'silent'}")
            for request in self.requests(device)]
        return "; ".join(f"{(moment - self.begin) / 1000:.3f} {what}" for moment, what in sorted(happened)[-10:])


def judge_notifications(devices, record, ended, findings, is_killed=None):
    """
    Checks that each device was notified after its last event, and at most once for each event.

    ended: numbers of the devices that are no longer registered at the end. is_killed: takes a device, a delivery and
    the next one; true if the latter may be a repetition because a worker was killed.
    - Returns: the numbers of explained duplicates: `unheard` by an answer that was not read, `killed` by a kill.

    >>> from devices import Device
    >>> from simulator import Delivery
    >>> device = Device(7, ["t/o"])
    >>> device.events = [(1000, "change"), (2000, "change")]
    >>> def judged(*answers, unheard=(), is_killed=None, token=device.push_token):
    ...     findings = Findings()
    ...     record = Record([
    ...         Delivery(number, token, status, None, moment) for number, (status, moment) in enumerate(answers)],
    ...         0, unheard)
    ...     excuses = judge_notifications([device], record, set(), findings, is_killed)
    ...     return {rule: texts[0].split(":")[0] for rule, texts in findings.by_rule.items()}, dict(+excuses)
    >>> judged((200, 1010), (200, 2010)), judged((200, 1010), (503, 2010), (200, 3000))
    (({}, {}), ({}, {}))

    The last delivery is missing, or failed and was not repeated; one came twice, and one came before its event:

    >>> judged((200, 1010))[0]
    {'missed': 'device 7 was not notified of its last change'}
    >>> judged((200, 1010), (503, 2010))[0]
    {'missed': 'device 7 was not notified of its last change'}
    >>> judged((200, 1010), (200, 2010), (200, 2011))[0]
    {'double': 'device 7 was notified without a reason'}
    >>> judged((200, 900), (200, 1010), (200, 2010))[0]
    {'double': 'device 7 was notified without a reason'}

    A delivery to another push token does not reach it:

    >>> judged((200, 1010), (200, 2010), token=device.push_token[:-1] + "5")[0]
    {'missed': 'device 7 was not notified of its last change'}

    Each answer that was not read explains one duplicate. A request on a connection that was silent is recorded when
    the connection ends, after the request that replaced it:

    >>> judged((200, 1010), (200, 2010), (200, 2020), unheard=[1]), judged((200, 1010), (200, 2010), unheard=[1])
    (({}, {'unheard': 1}), ({}, {}))
    >>> judged((200, 1010), (200, 2010), (200, 2020), (200, 2030), unheard=[1])
    ({'double': 'device 7 was notified without a reason'}, {'unheard': 1})
    >>> judged((200, 1010), (200, 2010), (200, 2020), unheard=[2])
    ({}, {'unheard': 1})
    >>> judged((200, 1010), (200, 2010), (200, 2020), is_killed=lambda device, before, _: before.moment == 2010)
    ({}, {'killed': 1})
    """
    excuses = collections.Counter()
    for device in devices:
        own = record.requests(device)
        missed = unnotified(device.events, [request for request in own if request.token == device.push_token])
        excused = device.number in ended or device.story and device.story.stuck
        if missed and not excused:
            findings.add("missed", (
                f"{record.title(device)} was not notified of its last {missed}: {record.trail(device)}"))
        events = sorted(moment for moment, _ in device.events)
        accepted = [request for request in own if request.status == 200]
        read = [request for request in accepted if request.sequence not in record.unheard]
        found = doubles(events, [request.moment for request in read])
        excuses["unheard"] += len(doubles(events, [request.moment for request in accepted])) - len(found)
        for index in found:
            if index and is_killed and is_killed(device, read[index - 1], read[index]):
                excuses["killed"] += 1
            else:
                findings.add("double", f"{record.title(device)} was notified without a reason: {record.trail(device)}")
    return excuses


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
    >>> from simulator import Delivery
    >>> device = Device(7, ["t/o"])
    >>> device.events = [(1000, "change")]
    >>> def judged(*moments, calm=0):
    ...     findings = Findings()
    ...     requests = [Delivery(1, device.push_token, 200, None, moment) for moment in moments]
    ...     return judge_waits([device], Record(requests, 0), calm, findings), list(findings.by_rule)
    >>> judged(152_000), judged(150_000), judged()
    (([151.0], ['late']), ([149.0], []), ([], []))
    >>> judged(63_000, calm=2_000), judged(62_000, calm=2_000)
    (([62.0], ['late']), ([61.0], []))
    """
    waits = []
    for device in devices:
        changed = device.events[0][0]
        notified = min((request.moment for request in record.requests(device)
                        if request.moment >= changed and is_final(request)), default=None)
        if notified is None:
            continue
        waits.append((notified - changed) / 1000)
        wait = (notified - max(changed, min(notified, calm))) / 1000
        if wait > (LONGEST_WAIT if calm else LONGEST_WAIT_AMID_FAULTS):
            findings.add("late", (
                f"{record.title(device)} was notified {wait:.1f} s after its change or the end of the brown-out: "
                f"{record.trail(device)}"))
    return waits


def judge_excuses(unheard, devices, kills, findings):
    """
    Checks that few duplicates are explained by answers that were not read.

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

    >>> class Verdicts: delivered, dead_letters, retired, coalesced = 98, 1, 1, 0
    >>> findings = Findings()
    >>> judge_ends(100, Verdicts, findings)
    >>> judge_ends(101, Verdicts, findings)
    >>> dict(findings.by_rule)
    {'ends': ['101 changes came to 100 ends: 98 delivered, 1 dead letters, 1 retired, 0 coalesced']}
    """
    ends = verdicts.delivered + verdicts.dead_letters + verdicts.retired + verdicts.coalesced
    if ends != changes:
        findings.add("ends", (
            f"{changes} changes came to {ends} ends: {verdicts.delivered} delivered, "
            f"{verdicts.dead_letters} dead letters, {verdicts.retired} retired, {verdicts.coalesced} coalesced"))


def judge_registrations(devices, registered, recorded, record, findings):
    """
    Checks that the right devices are registered, in Redis and in Kafka.

    registered: (device's name, order) -> push token in Redis; recorded: the same by the last records in Kafka, None for
    a tombstone.
    - Returns: the numbers of the devices that are no longer registered.

    >>> from devices import Device
    >>> from faults.plan import Story
    >>> device = Device(7, ["t/o"])
    >>> old, new = device.push_token, device.push_token[:-1] + "1"
    >>> device.generation = 1
    >>> def judged(registered, recorded, end="stays"):
    ...     device.story, findings, place = Story(1, "example", end), Findings(), (device.name, "t/o")
    ...     ended = judge_registrations(
    ...         [device], {place: registered}, {place: recorded}, Record([], 0), findings)
    ...     return sorted(ended), {rule: texts[0].split(":")[0] for rule, texts in findings.by_rule.items()}
    >>> judged(new, new), judged(None, None, "goes"), judged(None, None, "either"), judged(new, new, "either")
    (([], {}), ([7], {}), ([7], {}), ([], {}))

    Retired although it is in use; not retired although it is gone; left with the earlier push token:

    >>> judged(None, None)
    ([7], {'retired': 'device 7 (example) is registered no more for t/o'})
    >>> judged(new, new, "goes")
    ([], {'retired': 'device 7 (example) is still registered for t/o'})
    >>> judged(old, old)
    ([], {'retired': 'device 7 (example) is registered with an older push token for t/o'})

    Redis and Kafka differ, in either direction:

    >>> sorted(judged(None, new)[1]), sorted(judged(new, None)[1])
    (['registrations', 'retired'], ['registrations'])
    """
    ended = set()
    for device in devices:
        for order in device.orders:
            token, last = registered.get((device.name, order)), recorded.get((device.name, order))
            if token != last:
                findings.add("registrations", (
                    f"{record.title(device)}: Redis has {short(token)}, Kafka has {short(last)}: "
                    f"{record.trail(device)}"))
            end, wrong = device.story.end if device.story else "stays", None
            if token is None:
                ended.add(device.number)
                wrong = "is registered no more" if end == "stays" else None
            elif end == "goes":
                wrong = "is still registered"
            elif token != device.push_token:
                wrong = "is registered with an older push token"
            if wrong:
                findings.add("retired", f"{record.title(device)} {wrong} for {order}: {record.trail(device)}")
    return ended


def judge_dead_letters(wanted, found, findings):
    """
    Checks that each device that could not be notified has its dead letters, and that there are no others.

    wanted: order -> number of dead letters; found: (order, reason).

    >>> def judged(*found):
    ...     findings = Findings()
    ...     judge_dead_letters({"t/o": 1}, found, findings)
    ...     return findings.by_rule["dead_letters"]
    >>> judged(("t/o", "429"))
    []
    >>> judged(), judged(("t/o", "429"), ("t/o", "429")), judged(("t/o", "429"), ("t/p", "500"))
    (['0 dead letters of t/o, 1 are due'], ['2 dead letters of t/o, 1 are due'], ['a dead letter of t/p: 500'])
    """
    count = collections.Counter(key for key, _ in found)
    for key, reason in found:
        if key not in wanted:
            findings.add("dead_letters", f"a dead letter of {key}: {reason}")
    for key, due in wanted.items():
        if count[key] != due:
            findings.add("dead_letters", f"{count[key]} dead letters of {key}, {due} are due")


def judge_lag(behind, seconds, what, findings):
    """
    Checks that all records are committed.

    >>> findings = Findings()
    >>> judge_lag(0, 300, "the end", findings)
    >>> judge_lag(2, 300, "the end", findings)
    >>> dict(findings.by_rule)
    {'lag': ['2 records are not committed 300 s after the end']}
    """
    if behind:
        findings.add("lag", f"{behind} records are not committed {seconds} s after {what}")


def judge_memory(before, after, credentials, findings):
    """
    Checks that memory and open files have hardly grown.

    before, after: (megabytes, open files).

    >>> def judged(megabytes, files):
    ...     findings = Findings()
    ...     judge_memory((60, 30), (megabytes, files), 2, findings)
    ...     return len(findings.by_rule["memory"])
    >>> judged(91, 46), judged(92, 46), judged(91, 47)
    (0, 1, 1)
    """
    (warm, warm_files), (end, end_files) = before, after
    if end > warm * GROWTH + SPARE_MB:
        findings.add("memory", f"{warm:.0f} MB before the faults, {end:.0f} MB after them and a pause")
    if end_files > warm_files + CONNECTIONS * credentials:
        findings.add("memory", f"{warm_files:.0f} open files before the faults, {end_files:.0f} after them")


def judge_connections(connections, violations, credentials, silences, findings):
    """
    Checks that no stream and few connections are left, and that the client kept the rules of HTTP/2 and of APNs.

    silences: the number of faults after which connections answer nothing. The client has to close these connections, if
    need be all that it has, and the simulator takes a client that closes eleven within a minute for one that reconnects
    too fast.

    >>> def judged(connections, violations={}, silences=0):
    ...     findings = Findings()
    ...     judge_connections(connections, violations, 1, silences, findings)
    ...     return {rule: len(texts) for rule, texts in findings.by_rule.items()}
    >>> judged([{"openStreams": 0}] * 8), judged([{"openStreams": 0}] * 9), judged([{"openStreams": 1}])
    ({}, {'connections': 1}, {'connections': 1})
    >>> judged([], {"too many streams": 3})
    {'violations': 1}
    >>> judged([], {RECONNECTS: 1}, silences=1), judged([], {RECONNECTS: 2}, silences=1), judged([], {RECONNECTS: 1})
    ({}, {'violations': 1}, {'violations': 1})
    """
    if len(connections) > CONNECTIONS * credentials:
        findings.add("connections", f"{len(connections)} connections are open at the end")
    for connection in connections:
        if connection["openStreams"]:
            findings.add("connections", f"streams are left open: {json.dumps(connection)}")
    for violation, count in violations.items():
        if violation == RECONNECTS and count <= silences:
            continue
        findings.add("violations", f"{violation}: {count} times")


def short(token):
    return "none" if token is None else f"…{token[-12:]}"
