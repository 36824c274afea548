"""Whether everybody was told, nobody for no reason, and who is registered: from what happened, apart from the run."""

import collections

# An answer may be lost that was given so short before the end of its connection, in milliseconds: the simulator is
# told to be at most 3 s late.
LOSS = 4000


def untold(events, accepted):
    """
    The last event that a device must be told of and was not, nor of a later one.

    events: (moment, whether it must be told, what it was); accepted: moments at which its push token was delivered to.

    >>> untold([(10, True, "change"), (20, True, "change")], [25])
    >>> untold([(10, True, "change"), (20, True, "change")], [15])
    (20, 'change')
    >>> untold([(10, True, "change"), (20, False, "change")], [15])
    >>> untold([], [])
    """
    last = max(((moment, what) for moment, must, what in events if must), default=None)
    return last if last and max(accepted, default=-1) < last[0] else None


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


class Connections:
    """
    When connections had their last request, which is when they ended unless they are the last that there were.

    >>> ends = Connections([("a", 200, None, 100, 1), ("b", 200, None, 9000, 1), ("a", 200, None, 9500, 2)])
    >>> ends.may_have_lost(100, 1), ends.may_have_lost(8000, 1)
    (False, True)
    """

    def __init__(self, deliveries):
        self.ends = {}
        for _, _, _, moment, connection in deliveries:
            self.ends[connection] = max(moment, self.ends.get(connection, 0))

    def may_have_lost(self, moment, connection):
        """Whether the answer to a request may have been lost with its connection."""
        return self.ends[connection] - moment <= LOSS


class Findings:
    """Differences by rule; the first few of each are told."""

    def __init__(self):
        self.by_rule = collections.defaultdict(list)

    def add(self, rule, text):
        self.by_rule[rule].append(text)

    @property
    def count(self):
        return sum(len(texts) for texts in self.by_rule.values())


def judge_tellings(devices, deliveries, ended, findings):
    """
    Whether each device was told after its last change, and not oftener than something happened.

    ended: tokens' owners that are registered no more by the end, by number.
    - Returns: how many answers may have been lost, how many deliveries came twice because of that.
    """
    connections = Connections(deliveries)
    accepted = collections.defaultdict(list)
    perhaps_lost = 0
    for token, status, _, moment, connection in deliveries:
        if status == 200:
            accepted[token].append((moment, connection))
            perhaps_lost += connections.may_have_lost(moment, connection)
    explained = 0
    for device in devices:
        own = accepted.get(device.token, [])
        missed = untold(device.events, [moment for moment, _ in own])
        if missed and device.number not in ended:
            findings.add("told", f"{title(device)} was not told of its {missed[1]} at {missed[0]}")
        every = sorted(
            moment for generation in range(device.generation + 1)
            for moment in accepted.get(f"{device.number:056x}{generation:08x}", []))
        extra = doubles(sorted(moment for moment, _, _ in device.events), [moment for moment, _ in every])
        for index in extra:
            if index > 0 and connections.may_have_lost(*every[index - 1]) or device.story and device.story.twice:
                explained += 1
            else:
                findings.add("double", f"{title(device)} was told at {every[index][0]} once more than there was to tell")
    return perhaps_lost, explained


def judge_registrations(devices, standing, recorded, findings):
    """
    Whether who stands in Redis is who should, and Kafka says the same.

    standing: device's name and order -> push token in Redis; recorded: the same of the last records of Kafka, None for
    a tombstone.
    - Returns: numbers of the devices that are registered no more.
    """
    ended = set()
    for device in devices:
        for order in device.orders:
            token, record = standing.get((device.name, order)), recorded.get((device.name, order))
            if token != record:
                findings.add("registrations", f"{title(device)}: Redis has {short(token)}, Kafka has {short(record)}")
            end = device.story.end if device.story else "stays"
            if token is None:
                ended.add(device.number)
                if end == "stays":
                    findings.add("retired", f"{title(device)} is registered no more for {order}")
            elif end == "goes":
                findings.add("retired", f"{title(device)} is still registered for {order}")
            elif token != device.token:
                findings.add("retired", f"{title(device)} is registered with an older push token")
    return ended


def title(device):
    return f"device {device.number}" + (f" ({device.story.name})" if device.story else "")


def short(token):
    return "none" if token is None else f"…{token[-12:]}"


