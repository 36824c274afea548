"""The faults of APNs and the moments at which they come, by a seed, and the ends of the devices that they hit."""

import dataclasses
import random

# The client gives up a request after so many seconds (APNSConfiguration.requestTimeout).
DEADLINE = 10
# A fault that hits a number of requests is over after so many seconds all the same: an ill credential asks only now and
# then, and would not come to the end of the numbers of several faults.
COUNTED_SECONDS = 5


@dataclasses.dataclass(frozen=True)
class Step:
    """
    One thing to do, `at` seconds after the beginning of the load.

    act: `fault` (POST /faults, counted), `undo` (POST /faults, not counted), `change` or `register` (of the story's own
    order and device). age: a 410 says that the token was gone so many seconds before now. renewed: it registers with a
    new push token. others: the fault hits so many devices that are drawn by lot, each as often as it says; credential
    tells of which brand they are, 0 the one with a certificate, 1 the one with provider tokens; None: of any.
    """

    at: float
    act: str
    name: str
    body: tuple = ()
    story: int = 0
    age: float = None
    renewed: bool = False
    others: int = 0
    credential: int = None


@dataclasses.dataclass(frozen=True)
class Story:
    """
    A device with an order of its own and what happens to them.

    end: whether its registration `stays`, `goes`, or may do `either`. letters: how many dead letters tell of it. stuck:
    it can never be told.
    """

    number: int
    name: str
    end: str = "stays"
    letters: int = 0
    stuck: bool = False


def answer(status, reason, **others):
    return {"status": status, "reason": reason} | others


# APNs says this of a device, or of a credential that the other brand does not have.
OTHERS = {"429": (10, None), "expired": (5, 1), "odd-credential": (2, 1), "odd-topic": (2, None)}


def general(name, lot, rate):
    """
    The fault of a kind that hits whoever comes, and what undoes it: (seconds after, act, body).

    >>> general("goaway", random.Random(1), 800)
    [(0, 'fault', {'goaway': {'reason': '', 'processed': True}, 'now': True})]
    >>> [act for _, act, _ in general("limit-one", random.Random(1), 800)]
    ['fault', 'undo']
    >>> all("for" in general(name, random.Random(1), 800)[0][2] for name in ("500", "silence-amid", "no-connects"))
    True
    """
    few = lot.randint(1, 20)
    many = max(1, int(rate * lot.uniform(0.3, 1.5)))
    hold = round(lot.uniform(0.5, 4), 1)
    body = {
        "goaway": {"goaway": {"reason": "", "processed": True}, "now": True},
        "goaway-unprocessed": {"goaway": {"reason": "", "processed": False}, "now": True},
        "goaway-shutdown": {"goaway": {"reason": "Shutdown", "processed": lot.random() < 0.5}, "now": True},
        "goaway-amid": {"goaway": {"reason": "Shutdown", "processed": False}, "count": lot.randint(1, 3)},
        "cut": {"cut": True, "now": True},
        "cut-amid": {"cut": True, "count": lot.randint(1, 3)},
        "silence": {"silence": True, "now": True},
        "silence-amid": {"silence": True, "count": few},
        "500": answer(500, "InternalServerError", count=few),
        "503": answer(503, "ServiceUnavailable", count=few),
        "503-away": answer(503, "ServiceUnavailable") | {"for": hold},
        "500-bare": {"status": 500, "count": few},
        "shutdown": answer(503, "Shutdown", count=few),
        "429": answer(429, "TooManyRequests", count=lot.randint(1, 3)),
        "idle": answer(400, "IdleTimeout", count=lot.randint(1, 3)),
        "expired": answer(403, "ExpiredProviderToken", count=1),
        "slow": {"delayMilliseconds": lot.randint(500, 3000), "count": many},
        "limit-none": {"maxConcurrentStreams": 0},
        "limit-one": {"maxConcurrentStreams": 1},
        "limit-few": {"maxConcurrentStreams": lot.randint(2, 50)},
        "goaway-pair": {"goaway": {"reason": "Shutdown", "pairMilliseconds": lot.randint(1, 500)}, "now": True},
        "goaway-one": {"goaway": {"processed": lot.random() < 0.5}, "now": True, "connection": "busiest"},
        "goaway-error": {"goaway": {"errorCode": lot.choice((2, 7, 11)), "behind": few}, "now": True},
        "reset": {"cut": "reset", "now": True, "connection": lot.choice(("busiest", "oldest", "random"))},
        "half-close": {"halfClose": True, "now": True, "connection": "random"},
        "black-hole": {"blackHole": True, "now": True, "connection": "busiest"},
        "unheard": {"mute": True, "now": True, "connection": "busiest"},
        "reset-stream": {"resetStream": lot.choice((2, 7, 8)), "count": few},
        "limit-refusing": {"maxConcurrentStreams": lot.randint(1, 20), "refuseOpen": True, "for": hold},
        "slow-reads": {"slowReads": {"bytes": 200, "everyMilliseconds": 100}, "for": hold},
        "shut-window": {"shutWindow": True, "for": hold},
        "trickle": {"trickle": {"bytes": 50, "everyMilliseconds": 20}, "for": hold},
        "no-connects": {"dropConnects": True, "count": lot.randint(1, 3)},
        "no-handshakes": {"refuseHandshake": 40, "count": lot.randint(1, 2)},
        "slow-handshake": {"slowHandshakeMilliseconds": 2000, "count": lot.randint(1, 2)},
        "late-settings": {"lateSettingsMilliseconds": 2000, "count": lot.randint(1, 2)},
        "closed-port": {"closeListener": True, "for": hold},
        # A part of APNs that is away: some of the requests, or all of one connection.
        "brown-out": answer(503, "ServiceUnavailable", probability=0.8) | {"for": hold},
        "brown-out-500": answer(500, "InternalServerError", probability=0.5) | {"for": hold},
        "ill-connection": answer(
            lot.choice((500, 502, 503)), "ServiceUnavailable", connection="busiest") | {"for": hold},
        # The answers to other requests contradict these: they say nothing of the credential.
        "odd-credential": answer(403, "InvalidProviderToken", count=1),
        "odd-topic": answer(400, "TopicDisallowed", count=1),
        "jitter": {"delayMilliseconds": lot.randint(1, 500), "probability": 0.3, "for": hold},
    }[name]
    if "count" in body and name not in OTHERS:
        body["for"] = COUNTED_SECONDS
    steps = [(0, "fault", body)]
    if name.startswith("limit") and "for" not in body:
        # The newest of several limits holds.
        steps.append((hold, "undo", {"maxConcurrentStreams": 1000}))
    return steps


GENERAL = (
    ("goaway", 3), ("goaway-unprocessed", 3), ("goaway-shutdown", 3), ("goaway-amid", 2), ("cut", 4), ("cut-amid", 4),
    ("silence", 2), ("silence-amid", 3), ("500", 3), ("503", 3), ("503-away", 2), ("500-bare", 1), ("shutdown", 2),
    ("429", 3), ("idle", 1), ("expired", 2), ("slow", 3), ("limit-none", 2), ("limit-one", 2), ("limit-few", 3),
    ("goaway-pair", 3), ("goaway-one", 3), ("goaway-error", 2), ("reset", 3), ("half-close", 2), ("black-hole", 3),
    ("unheard", 2), ("reset-stream", 3), ("limit-refusing", 3), ("slow-reads", 3), ("shut-window", 2), ("trickle", 2),
    ("no-connects", 1), ("no-handshakes", 1), ("slow-handshake", 1), ("late-settings", 1), ("closed-port", 1),
    ("jitter", 2), ("odd-credential", 1), ("odd-topic", 1), ("brown-out", 2), ("brown-out-500", 1),
    ("ill-connection", 2),
)


def story(name, lot):
    """
    What happens to a device, as (seconds after the story's begin, act, arguments), and how it ends.

    >>> steps, end = story("gone", random.Random(1))
    >>> [act for _, act, _ in steps], end
    (['fault', 'change'], {'end': 'goes'})
    """
    # Of a token that is gone APNs says so each time; of one that is used again only until then.
    gone, once = answer(410, "Unregistered"), {"count": 1}
    late = gone | {"delayMilliseconds": 1500}
    again = {
        "busy": answer(429, "TooManyRequests", count=lot.randint(1, 3)),
        "failing": answer(500, "InternalServerError", count=lot.randint(1, 3)),
        "away": answer(503, "ServiceUnavailable", count=lot.randint(1, 3)),
        "moved": answer(503, "Shutdown", count=1),
        "mute": {"silence": True, "count": 1},
        "severed": {"cut": True, "count": lot.randint(1, 2)},
        "sent-away": {"goaway": {"reason": "Shutdown", "processed": False}, "count": 1},
    }
    if name in again:
        return [(0, "fault", {"body": again[name]}), (0.2, "change", {})], {}
    stories = {
        # The token is gone, and was registered before.
        "gone": ([(0, "fault", {"body": gone}), (0.2, "change", {})], {"end": "goes"}),
        "gone-expired": (
            [(0, "fault", {"body": gone | {"reason": "ExpiredToken"}}), (0.2, "change", {})], {"end": "goes"}),
        # It was gone an hour before it registered: that says nothing of the registration.
        "gone-before": (
            [(0, "fault", {"body": gone | once, "age": 3600}), (0.2, "change", {}), (4, "change", {})], {}),
        "gone-and-back": (
            [(0, "fault", {"body": gone}), (0.2, "change", {}), (4, "register", {"renewed": True}),
             (6, "change", {})], {}),
        # It registers with a new token, or with the same one again, while the bad news is on its way.
        "gone-race": (
            [(0, "fault", {"body": late}), (0.2, "change", {}), (0.9, "register", {"renewed": True})], {}),
        "gone-same": ([(0, "fault", {"body": late | once}), (0.2, "change", {}), (0.9, "register", {})], {}),
        "late": (
            [(0, "fault", {"body": {"delayMilliseconds": (DEADLINE + 2) * 1000, "count": 1}}), (0.2, "change", {})],
            {}),
        "bad-token": (
            [(0, "fault", {"body": answer(400, "BadDeviceToken", count=1)}), (0.2, "change", {})],
            {"end": "either"}),
        "wrong-topic": (
            [(0, "fault", {"body": answer(400, "DeviceTokenNotForTopic", count=1)}), (0.2, "change", {}),
             (4, "change", {})], {"letters": 1}),
        # It never gets better: somebody must hear of it, and nobody may wait for it.
        "stuck": (
            [(0, "fault", {"body": answer(429, "TooManyRequests")}), (0.2, "change", {})],
            {"letters": 1, "stuck": True}),
    }
    return stories[name]


STORIES = (
    ("gone", 4), ("gone-expired", 2), ("gone-before", 4), ("gone-and-back", 4), ("gone-race", 4), ("gone-same", 3),
    ("late", 1), ("bad-token", 2), ("wrong-topic", 2), ("busy", 2), ("failing", 2), ("away", 2), ("moved", 1),
    ("mute", 2), ("severed", 2), ("sent-away", 2), ("stuck", 1),
)


def bag(kinds, lot):
    """
    Names without end; all come before one comes again as often as it weighs.

    >>> names = bag((("a", 1), ("b", 2)), random.Random(3))
    >>> sorted(next(names) for _ in range(6))
    ['a', 'a', 'b', 'b', 'b', 'b']
    """
    while True:
        # First each once, so that a short plan has most of them.
        names = [name for name, _ in kinds]
        lot.shuffle(names)
        rest = [name for name, weight in kinds for _ in range(weight - 1)]
        lot.shuffle(rest)
        yield from names + rest


class Plan:
    """
    Steps and stories of a run, the same ones for the same seed.

    >>> plan, same = Plan(7, 200, 250, 800), Plan(7, 200, 250, 800)
    >>> plan.steps == same.steps, sum(step.act == "fault" for step in plan.steps)
    (True, 200)
    >>> sorted(plan.steps, key=lambda step: step.at) == plan.steps, plan.steps[0].at >= 0
    (True, True)
    >>> {name for name, _ in GENERAL + STORIES} == {step.name for step in plan.steps if step.act == "fault"}
    True
    >>> len(Plan(7, 20, 10, 400).stories), len(Plan(7, 20, 10, 400, with_stories=False).stories)
    (8, 0)
    """

    def __init__(self, seed, faults, seconds, rate, with_stories=True):
        lot = random.Random(seed)
        self.steps, self.stories = [], []
        generals, stories = bag(GENERAL, lot), bag(STORIES, lot)
        for number in range(faults):
            at = seconds * (number + lot.random()) / max(1, faults)
            # Two of five faults are about one device.
            if with_stories and number % 5 in (1, 3):
                self.tell(next(stories), at, lot)
            else:
                name = next(generals)
                for after, act, body in general(name, lot, rate):
                    others, credential = OTHERS.get(name, (0, None))
                    self.steps.append(Step(
                        round(at + after, 2), act, name, tuple(body.items()), others=others, credential=credential))
        self.steps.sort(key=lambda step: step.at)

    def tell(self, name, at, lot):
        number = len(self.stories) + 1
        steps, end = story(name, lot)
        self.stories.append(Story(number, name, **end))
        for after, act, values in steps:
            values = values | {"body": tuple(values.get("body", {}).items())}
            self.steps.append(Step(round(at + after, 2), act, name, story=number, **values))


class BrownOut:
    """
    One fault: for so many seconds APNs answers 80 % of all requests with 503.

    >>> [(step.name, dict(step.body)["for"]) for step in BrownOut(300).steps]
    [('brown-out', 300)]
    """

    def __init__(self, seconds):
        body = answer(503, "ServiceUnavailable", probability=0.8) | {"for": seconds}
        self.steps, self.stories = [Step(0, "fault", "brown-out", tuple(body.items()))], []
