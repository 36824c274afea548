"""Whether everybody was told, nobody for no reason, and who is registered: from what happened, apart from the run."""

import collections

# An answer may be lost whose request came so short before the end of its connection, in milliseconds: faults make it
# late by up to 3 s, and keep it back for up to 4 s.
LOSS = 7000
# What APNs says of a notification for good, besides that it took it: nobody can be told then.
REFUSALS = (
    (410, "Unregistered"), (410, "ExpiredToken"), (400, "BadDeviceToken"), (400, "DeviceTokenNotForTopic"))


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
    What the simulator saw: (push token, status, reason, moment, connection) of each request.

    A connection ended with its last request, unless it is the last that there was.

    >>> record = Record([("a0", 200, None, 100, 1), ("b0", 200, None, 9000, 1), ("a0", 200, None, 9500, 2)], 0)
    >>> record.may_be_lost(100, 1), record.may_be_lost(8000, 1), record.lost
    (False, True, 2)
    """

    def __init__(self, deliveries, begin):
        self.begin, self.ends = begin, {}
        self.by_device = collections.defaultdict(list)
        for token, status, reason, moment, connection in deliveries:
            # The last eight digits count the push tokens of a device.
            self.by_device[token[:-8]].append((token, status, reason, moment, connection))
            self.ends[connection] = max(moment, self.ends.get(connection, 0))
        self.lost = sum(
            status == 200 and self.may_be_lost(moment, connection) for _, status, _, moment, connection in deliveries)

    def may_be_lost(self, moment, connection):
        """Whether the answer to a request may have been lost with its connection."""
        return self.ends[connection] - moment <= LOSS

    def requests(self, device):
        return self.by_device.get(device.token[:-8], [])

    def title(self, device):
        return f"device {device.number}" + (f" ({device.story.name})" if device.story else "")

    def trail(self, device):
        """What happened to a device lately, in seconds since the beginning."""
        happened = [(moment, what) for moment, what in device.events]
        happened += [(moment, f"APNs {reason or status or 'silent'}")
                     for _, status, reason, moment, _ in self.requests(device)]
        return "; ".join(f"{(moment - self.begin) / 1000:.3f} {what}" for moment, what in sorted(happened)[-10:])


def judge_tellings(devices, record, ended, findings):
    """
    Whether each device was told after its last change, and not oftener than something happened.

    ended: numbers of the devices that are registered no more by the end.
    - Returns: how many were told once more, since an answer may have been lost or was too late.
    """
    explained = 0
    for device in devices:
        own = record.requests(device)
        missed = untold(device.events, [
            (status, reason, moment) for token, status, reason, moment, _ in own if token == device.token])
        excused = device.number in ended or device.story and device.story.letters
        if missed and not excused:
            findings.add("told", f"{record.title(device)} was not told of its last {missed}: {record.trail(device)}")
        accepted = [(moment, connection) for _, status, _, moment, connection in own if status == 200]
        events = sorted(moment for moment, _ in device.events)
        for index in doubles(events, [moment for moment, _ in accepted]):
            if index > 0 and record.may_be_lost(*accepted[index - 1]) or device.story and device.story.twice:
                explained += 1
            else:
                findings.add("double", f"{record.title(device)} was told without a reason: {record.trail(device)}")
    return explained


def judge_registrations(devices, standing, recorded, record, findings):
    """
    Whether who stands in Redis is who should, and Kafka says the same.

    standing: (device's name, order) -> push token in Redis; recorded: the same of the last records of Kafka, None for a
    tombstone.
    - Returns: numbers of the devices that are registered no more.
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


def short(token):
    return "none" if token is None else f"…{token[-12:]}"
