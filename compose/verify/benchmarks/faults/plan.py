"""The faults of APNs and their moments, chosen by a seed, and the expected end of each device that they hit alone."""

import dataclasses
import random

from lots import bag

# The client gives up a request after this many seconds (APNSConfiguration.requestTimeout).
DEADLINE = 10
# A fault for a number of requests also ends after this many seconds: an ill credential sends only a few probes, which
# would not use up the counts of several faults.
COUNTED_SECONDS = 5


@dataclasses.dataclass(frozen=True)
class Step:
    """
    One thing to do, `at` seconds after the beginning of the load.

    act: `fault` (POST /faults), `change` or `register` (of the story's own order and device). renewed: true if it
    registers with a new push token. others: the number of randomly chosen devices, each of which gets the fault; 0: the
    fault is for all, or for the story's device. credential: the brand of these devices, 0 the one with a certificate, 1
    the one with provider tokens, None any.
    """

    at: float
    act: str
    name: str
    body: dict = dataclasses.field(default_factory=dict)
    story: int = 0
    renewed: bool = False
    others: int = 0
    credential: int = None


@dataclasses.dataclass(frozen=True)
class Story:
    """
    A device with its own order, and its expected end.

    end: its registration `stays`, `goes`, or `either`. dead_letters: their number. stuck: true if it can never be
    notified.
    """

    number: int
    name: str
    end: str = "stays"
    dead_letters: int = 0
    stuck: bool = False


def answer(status, reason, **others):
    return {"status": status, "reason": reason} | others


def general(lot, rate):
    """
    Returns the faults that are not part of a story: name -> (relative frequency, body).

    >>> bodies = {name: body for name, (_, body) in general(random.Random(1), 800).items()}
    >>> bodies["goaway"], bodies["limit-one"]
    ({'goaway': {'reason': '', 'processed': True}, 'now': True}, {'maxConcurrentStreams': 1, 'for': 3.3})
    >>> [name for name, body in bodies.items() if not {"for", "count", "now"} & set(body)]
    []
    """
    few = lot.randint(1, 20)
    many = max(1, int(rate * lot.uniform(0.3, 1.5)))
    hold = round(lot.uniform(0.5, 4), 1)
    return {
        "goaway": (3, {"goaway": {"reason": "", "processed": True}, "now": True}),
        "goaway-unprocessed": (3, {"goaway": {"reason": "", "processed": False}, "now": True}),
        "goaway-shutdown": (3, {"goaway": {"reason": "Shutdown", "processed": lot.random() < 0.5}, "now": True}),
        "goaway-amid": (2, {"goaway": {"reason": "Shutdown", "processed": False}, "count": lot.randint(1, 3)}),
        "cut": (4, {"cut": True, "now": True}),
        "cut-amid": (4, {"cut": True, "count": lot.randint(1, 3)}),
        "silence": (2, {"silence": True, "now": True}),
        "silence-amid": (3, {"silence": True, "count": few}),
        "500": (3, answer(500, "InternalServerError", count=few)),
        "503": (3, answer(503, "ServiceUnavailable", count=few)),
        "503-away": (2, answer(503, "ServiceUnavailable") | {"for": hold}),
        "500-bare": (1, {"status": 500, "count": few}),
        "shutdown": (2, answer(503, "Shutdown", count=few)),
        "429": (3, answer(429, "TooManyRequests", count=lot.randint(1, 3))),
        "idle": (1, answer(400, "IdleTimeout", count=lot.randint(1, 3))),
        "expired": (2, answer(403, "ExpiredProviderToken", count=1)),
        "slow": (3, {"delayMilliseconds": lot.randint(500, 3000), "count": many}),
        "limit-none": (2, {"maxConcurrentStreams": 0, "for": hold}),
        "limit-one": (2, {"maxConcurrentStreams": 1, "for": hold}),
        "limit-few": (3, {"maxConcurrentStreams": lot.randint(2, 50), "for": hold}),
        "goaway-pair": (3, {"goaway": {"reason": "Shutdown", "pairMilliseconds": lot.randint(1, 500)}, "now": True}),
        "goaway-one": (3, {"goaway": {"processed": lot.random() < 0.5}, "now": True, "connection": "busiest"}),
        "goaway-error": (2, {"goaway": {"errorCode": lot.choice((2, 7, 11)), "behind": few}, "now": True}),
        "reset": (3, {"cut": "reset", "now": True, "connection": lot.choice(("busiest", "oldest", "random"))}),
        "half-close": (2, {"halfClose": True, "now": True, "connection": "random"}),
        "black-hole": (3, {"blackHole": True, "now": True, "connection": "busiest"}),
        "unheard": (2, {"mute": True, "now": True, "connection": "busiest"}),
        "reset-stream": (3, {"resetStream": lot.choice((2, 7, 8)), "count": few}),
        "limit-refusing": (3, {"maxConcurrentStreams": lot.randint(1, 20), "refuseOpen": True, "for": hold}),
        "slow-reads": (3, {"slowReads": {"bytes": 200, "everyMilliseconds": 100}, "for": hold}),
        "shut-window": (2, {"shutWindow": True, "for": hold}),
        "trickle": (2, {"trickle": {"bytes": 50, "everyMilliseconds": 20}, "for": hold}),
        "no-connects": (1, {"dropConnects": True, "count": lot.randint(1, 3)}),
        "no-handshakes": (1, {"refuseHandshake": 40, "count": lot.randint(1, 2)}),
        "slow-handshake": (1, {"slowHandshakeMilliseconds": 2000, "count": lot.randint(1, 2)}),
        "late-settings": (1, {"lateSettingsMilliseconds": 2000, "count": lot.randint(1, 2)}),
        "closed-port": (1, {"closeListener": True, "for": hold}),
        # A part of APNs is unavailable: for some of the requests, or for all on one connection.
        "brown-out": (2, answer(503, "ServiceUnavailable", probability=0.8) | {"for": hold}),
        "brown-out-500": (1, answer(500, "InternalServerError", probability=0.5) | {"for": hold}),
        "ill-connection": (2, answer(
            lot.choice((500, 502, 503)), "ServiceUnavailable", connection="busiest") | {"for": hold}),
        # The answers to other requests contradict these, so they say nothing about the credential.
        "odd-credential": (1, answer(403, "InvalidProviderToken", count=1)),
        "odd-topic": (1, answer(400, "TopicDisallowed", count=1)),
        "jitter": (2, {"delayMilliseconds": lot.randint(1, 500), "probability": 0.3, "for": hold}),
    }


GENERAL = tuple((name, weight) for name, (weight, _) in general(random.Random(0), 1).items())
# Faults for single devices, with (others, credential) of their Step: APNs gives these answers for a device, or for a
# provider token, which only one brand has.
OTHERS = {"429": (10, None), "expired": (5, 1), "odd-credential": (2, 1), "odd-topic": (2, None)}


def stories(lot):
    """
    Returns the stories of one device each: name -> (relative frequency, (steps, end)).

    steps: (seconds after the story's beginning, act, other fields of the Step); end: fields of the Story.

    >>> _, (steps, end) = stories(random.Random(1))["gone"]
    >>> [act for _, act, _ in steps], end
    (['fault', 'change'], {'end': 'goes'})
    """
    # APNs reports a token that is gone each time, and one that remains in use only once.
    gone, once = answer(410, "Unregistered"), {"count": 1}
    late = gone | {"delayMilliseconds": 1500}

    def change(seconds):
        return seconds, "change", {}

    def hit(body, *more, **end):
        """Returns a fault of the device, a change right after it and more steps, and the end."""
        return [(0, "fault", {"body": body}), change(0.2), *more], end

    return {
        # The token is gone, and was registered before that.
        "gone": (4, hit(gone, end="goes")),
        "gone-expired": (2, hit(gone | {"reason": "ExpiredToken"}, end="goes")),
        # It was gone an hour ago, before it registered: that says nothing about the registration.
        "gone-before": (4, hit(gone | once | {"timestampOffsetSeconds": -3600}, change(4))),
        "gone-and-back": (4, hit(gone, (4, "register", {"renewed": True}), change(6))),
        # It registers with a new token, or with the same one again, while the 410 is in flight.
        "gone-race": (4, hit(late, (0.9, "register", {"renewed": True}))),
        "gone-same": (3, hit(late | once, (0.9, "register", {}))),
        "late": (1, hit({"delayMilliseconds": (DEADLINE + 2) * 1000, "count": 1})),
        "bad-token": (2, hit(answer(400, "BadDeviceToken", count=1), end="either")),
        "wrong-topic": (2, hit(answer(400, "DeviceTokenNotForTopic", count=1), change(4), dead_letters=1)),
        # The notification is retried until APNs accepts it.
        "busy": (2, hit(answer(429, "TooManyRequests", count=lot.randint(1, 3)))),
        "failing": (2, hit(answer(500, "InternalServerError", count=lot.randint(1, 3)))),
        "away": (2, hit(answer(503, "ServiceUnavailable", count=lot.randint(1, 3)))),
        "moved": (1, hit(answer(503, "Shutdown", count=1))),
        "mute": (2, hit({"silence": True, "count": 1})),
        "severed": (2, hit({"cut": True, "count": lot.randint(1, 2)})),
        "sent-away": (2, hit({"goaway": {"reason": "Shutdown", "processed": False}, "count": 1})),
        # It never succeeds: there must be a dead letter, and no other device may wait for it.
        "stuck": (1, hit(answer(429, "TooManyRequests"), dead_letters=1, stuck=True)),
    }


STORIES = tuple((name, weight) for name, (weight, _) in stories(random.Random(0)).items())


def plan(seed, faults, seconds, rate, with_stories=True):
    """
    Returns the steps and stories of a run, the same ones for the same seed.

    >>> steps, _ = plan(7, 200, 250, 800)
    >>> plan(7, 200, 250, 800)[0] == steps, sum(step.act == "fault" for step in steps)
    (True, 200)
    >>> sorted(steps, key=lambda step: step.at) == steps, steps[0].at >= 0
    (True, True)
    >>> {name for name, _ in GENERAL + STORIES} == {step.name for step in steps if step.act == "fault"}
    True
    >>> bodies = [step.body for step in steps if step.act == "fault" and not step.story and not step.others]
    >>> all("for" in body or "now" in body for body in bodies)
    True
    >>> len(plan(7, 20, 10, 400)[1]), len(plan(7, 20, 10, 400, with_stories=False)[1])
    (8, 0)
    """
    lot = random.Random(seed)
    steps, begun = [], []
    general_names, story_names = bag(GENERAL, lot), bag(STORIES, lot)
    for number in range(faults):
        at = seconds * (number + lot.random()) / max(1, faults)
        # Two of five faults begin a story.
        if with_stories and number % 5 in (1, 3):
            name = next(story_names)
            _, (parts, end) = stories(lot)[name]
            begun.append(Story(len(begun) + 1, name, **end))
            steps += [Step(round(at + after, 2), act, name, story=len(begun), **values) for after, act, values in parts]
        else:
            name = next(general_names)
            _, body = general(lot, rate)[name]
            others, credential = OTHERS.get(name, (0, None))
            if "count" in body and not others:
                body["for"] = COUNTED_SECONDS
            steps.append(Step(round(at, 2), "fault", name, body, others=others, credential=credential))
    return sorted(steps, key=lambda step: step.at), begun


def brown_out(seconds):
    """Returns a plan with one fault: for this many seconds APNs answers 80 % of all requests with 503."""
    return [Step(0, "fault", "brown-out", answer(503, "ServiceUnavailable", probability=0.8) | {"for": seconds})], []
