"""The judges of a faults run: every device is told, none without a reason, and the right ones are registered."""

import collections
import json

# An answer may be lost whose request came so short before the end of its connection, in milliseconds: faults make it
# late by up to 3 s, and keep it back for up to 4 s.
LOSS = 7000
# Final answers of APNs to a notification that it does not take: the device cannot be told.
REFUSALS = (
    (410, "Unregistered"), (410, "ExpiredToken"), (400, "BadDeviceToken"), (400, "DeviceTokenNotForTopic"))
# Memory may grow by this factor, and by the megabytes that a busy allocator keeps.
GROWTH, KEPT_MB = 1.25, 16
# Most connections of a credential that may be open at the end.
CONNECTIONS = 8
RECONNECTS = "rapidReconnects"


def untold(events, requests):
    """
    The last event of a device, if its push token has had no final answer since then.

    events: (moment, what it was); requests: (status, reason, moment) of those with the push token that it has.

    >>> untold([(10, "change"), (20, "change")], [(200, None, 25)])
    >>> untold([(10, "change"), (20, "registration")], [(200, None, 15), (503, "Shutdown", 25)])
    'registration'
    >>> untold([(10, "change")], [(410, "Unregistered", 12)])
    >>> untold([], [])
    """
    moment, what = max(events, default=(0, None))
    final = any(when >= moment and (status == 200 or (status, reason) in REFUSALS) for status, reason, when in requests)
    return None if final else what


def doubles(events, deliveries):
    """
    Deliveries that no event accounts for, as indices of `deliveries`.

    events: moments; deliveries: moments of accepted ones; both rising. Each event accounts for one delivery at most.

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
    All requests to the simulator: (push token, status, reason, moment, connection).

    A connection ended with its last request, unless it is the last that there was.

    >>> record = Record([("a0", 200, None, 100, 1), ("b0", 200, None, 9000, 1), ("a0", 200, None, 9500, 2)], 0)
    >>> record.may_be_lost(100, 1), record.may_be_lost(8000, 1), record.lost
    (False, True, 2)

    slow: (begin, end) of when answers were slow. The client's deadline begins with the first stream of a request, also
    of one that comes back unprocessed and has another stream later: so an answer that is a little slow can be too late.

    >>> Record([], 0, [(50, 150)]).may_be_late(100), Record([], 0, [(50, 150)]).may_be_late(151)
    (True, False)
    """

    def __init__(self, deliveries, begin, slow=()):
        self.begin, self.ends, self.slow = begin, {}, slow
        self.by_device = collections.defaultdict(list)
        for token, status, reason, moment, connection in deliveries:
            # The last eight digits count the push tokens of a device.
            self.by_device[token[:-8]].append((token, status, reason, moment, connection))
            self.ends[connection] = max(moment, self.ends.get(connection, 0))
        self.lost = sum(
            status == 200 and (self.may_be_lost(moment, connection) or self.may_be_late(moment))
            for _, status, _, moment, connection in deliveries)

    def may_be_late(self, moment):
        """The answer to a request may have come after the client's deadline."""
        return any(begin <= moment <= end for begin, end in self.slow)

    def may_be_lost(self, moment, connection):
        """The answer to a request may have been lost with its connection."""
        return self.ends[connection] - moment <= LOSS

    def requests(self, device):
        return self.by_device.get(device.token[:-8], [])

    def title(self, device):
        return f"device {device.number}" + (f" ({device.story.name})" if device.story else "")

    def trail(self, device):
        """The last events of a device, in seconds since the beginning."""
        happened = [(moment, what) for moment, what in device.events]
        happened += [(moment, f"APNs {reason or status or 'silent'}")
                     for _, status, reason, moment, _ in self.requests(device)]
        return "; ".join(f"{(moment - self.begin) / 1000:.3f} {what}" for moment, what in sorted(happened)[-10:])


def judge_tellings(devices, record, ended, findings):
    """
    Each device must be told after its last change, and at most once for each event.

    ended: numbers of the devices that are registered no more by the end.
    - Returns: how many were told once more, since an answer may have been lost or was too late.

    >>> def judged(deliveries, stands="a"):
    ...     device, findings = Scene(stands), Findings()
    ...     device.events = [(1000, "change"), (2000, "change")]
    ...     own = [("a" + "0" * 8, status, None, moment, 1) for status, moment in deliveries]
    ...     # Another device's request: the connection lived on, so that no answer may be lost.
    ...     record = Record(own + [("b" + "0" * 8, 200, None, 20000, 1)], 0)
    ...     explained = judge_tellings([device], record, set(), findings)
    ...     return explained, {rule: texts[0].split(":")[0] for rule, texts in findings.by_rule.items()}
    >>> judged([(200, 1010), (200, 2010)]), judged([(200, 1010), (503, 2010), (200, 3000)])
    ((0, {}), (0, {}))

    A delivery that is missing, the last one, or one that failed and is not sent again; and one that comes twice:

    >>> judged([(200, 1010)])
    (0, {'told': 'device 7 was not told of its last change'})
    >>> judged([(200, 1010), (503, 2010)])
    (0, {'told': 'device 7 was not told of its last change'})
    >>> judged([(200, 1010), (200, 2010), (200, 2011)])
    (0, {'double': 'device 7 was told without a reason'})

    What came with the push token that it had before does not tell it:

    >>> judged([(200, 1010), (200, 2010)], stands="a1")[1]
    {'told': 'device 7 was not told of its last change'}

    A double is explained when the connection ended just after the first delivery:

    >>> device, findings = Scene("a"), Findings()
    >>> device.events = [(1000, "change")]
    >>> token = "a" + "0" * 8
    >>> judge_tellings([device], Record([(token, 200, None, 1010, 1), (token, 200, None, 1100, 2)], 0), set(), findings)
    1
    >>> findings.count
    0
    """
    explained = 0
    for device in devices:
        own = record.requests(device)
        missed = untold(device.events, [
            (status, reason, moment) for token, status, reason, moment, _ in own if token == device.token])
        excused = device.number in ended or device.story and device.story.stuck
        if missed and not excused:
            findings.add("told", f"{record.title(device)} was not told of its last {missed}: {record.trail(device)}")
        accepted = [(moment, connection) for _, status, _, moment, connection in own if status == 200]
        events = sorted(moment for moment, _ in device.events)
        for index in doubles(events, [moment for moment, _ in accepted]):
            before = accepted[index - 1] if index > 0 else None
            is_explained = before and (record.may_be_lost(*before) or record.may_be_late(before[0]))
            if is_explained or device.story and device.story.twice:
                explained += 1
            else:
                findings.add("double", f"{record.title(device)} was told without a reason: {record.trail(device)}")
    return explained


def judge_registrations(devices, standing, recorded, record, findings):
    """
    The right devices must be registered in Redis, and in Kafka.

    standing: (device's name, order) -> push token in Redis; recorded: the same of the last records of Kafka, None for a
    tombstone.
    - Returns: numbers of the devices that are registered no more.

    >>> def judged(standing, recorded, end="stays"):
    ...     device, findings = Scene("a1", end), Findings()
    ...     tokens = {"a1": "a00000001", "a0": "a00000000", None: None}
    ...     place = (device.name, device.orders[0])
    ...     ended = judge_registrations(
    ...         [device], {place: tokens[standing]}, {place: tokens[recorded]}, Record([], 0), findings)
    ...     return sorted(ended), {rule: texts[0].split(":")[0] for rule, texts in findings.by_rule.items()}
    >>> judged("a1", "a1"), judged(None, None, "goes"), judged(None, None, "either"), judged("a1", "a1", "either")
    (([], {}), ([7], {}), ([7], {}), ([], {}))

    Retired although it came back; not retired although it is gone; left with the push token of before:

    >>> judged(None, None)
    ([7], {'retired': 'device 7 (example) is registered no more for t/o'})
    >>> judged("a1", "a1", "goes")
    ([], {'retired': 'device 7 (example) is still registered for t/o'})
    >>> judged("a0", "a0")
    ([], {'retired': 'device 7 (example) is registered with an older push token for t/o'})

    Redis and Kafka disagree, either way:

    >>> sorted(judged(None, "a1")[1]), sorted(judged("a1", None)[1])
    (['registrations', 'retired'], ['registrations'])
    """
    ended = set()
    for device in devices:
        for order in device.orders:
            token, kept = standing.get((device.name, order)), recorded.get((device.name, order))
            if token != kept:
                findings.add("registrations", (
                    f"{record.title(device)}: Redis has {short(token)}, Kafka has {short(kept)}: "
                    f"{record.trail(device)}"))
            end, wrong = device.story.end if device.story else "stays", None
            if token is None:
                ended.add(device.number)
                wrong = "is registered no more" if end == "stays" else None
            elif end == "goes":
                wrong = "is still registered"
            elif token != device.token:
                wrong = "is registered with an older push token"
            if wrong:
                findings.add("retired", f"{record.title(device)} {wrong} for {order}: {record.trail(device)}")
    return ended


def judge_letters(wanted, letters, findings):
    """
    Each dead letter must have its reason, and each device that could not be told its dead letter.

    wanted: order -> how many; letters: (order, reason).

    >>> def judged(*letters):
    ...     findings = Findings()
    ...     judge_letters({"t/o": 1}, letters, findings)
    ...     return findings.by_rule["letters"]
    >>> judged(("t/o", "429"))
    []
    >>> judged(), judged(("t/o", "429"), ("t/o", "429")), judged(("t/o", "429"), ("t/p", "500"))
    (['0 dead letters of t/o, 1 are due'], ['2 dead letters of t/o, 1 are due'], ['a dead letter of t/p: 500'])
    """
    count = collections.Counter(key for key, _ in letters)
    for key, reason in letters:
        if key not in wanted:
            findings.add("letters", f"a dead letter of {key}: {reason}")
    for key, due in wanted.items():
        if count[key] != due:
            findings.add("letters", f"{count[key]} dead letters of {key}, {due} are due")


def judge_lag(behind, seconds, what, findings):
    """
    All records that were read must be committed.

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
    Memory and open files must be as at the beginning.

    before, after: (megabytes, open files).

    >>> def judged(megabytes, files):
    ...     findings = Findings()
    ...     judge_memory((60, 30), (megabytes, files), 2, findings)
    ...     return len(findings.by_rule["memory"])
    >>> judged(91, 46), judged(92, 46), judged(91, 47)
    (0, 1, 1)
    """
    (warm, warm_files), (end, end_files) = before, after
    if end > warm * GROWTH + KEPT_MB:
        findings.add("memory", f"{warm:.0f} MB before the faults, {end:.0f} MB after them and a pause")
    if end_files > warm_files + CONNECTIONS * credentials:
        findings.add("memory", f"{warm_files:.0f} open files before the faults, {end_files:.0f} after them")


def judge_connections(connections, violations, credentials, silences, findings):
    """
    No stream and few connections may be left, and the rules of HTTP/2 and of APNs must be kept.

    silences: faults after which connections answer nothing. The client has to close those, all that it has if need be,
    and eleven of them within a minute are for the simulator somebody who comes and goes too fast.

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


class Scene:
    """
    A device for the examples above; its name and place are always the same.

    stands: its push token and how often it changed; end: of the story that it is in, if any.
    """

    class Story:
        name, twice, stuck = "example", False, False

    def __init__(self, stands, end=None):
        self.number, self.name, self.orders, self.events = 7, "device", ["t/o"], []
        self.token = f"{stands[0]}{int(stands[1:] or 0):08x}"
        self.story = None
        if end:
            self.story = Scene.Story()
            self.story.end = end


def short(token):
    return "none" if token is None else f"…{token[-12:]}"
