"""The faults of a chaos run and their order, chosen by a seed."""

import dataclasses
import random

from lots import bag


@dataclasses.dataclass(frozen=True)
class Kind:
    """
    A kind of fault.

    least, most: seconds until it is undone. owns: the permission that it needs, see `choose`. loses: Redis loses data.
    """

    name: str
    services: tuple = ()
    least: float = 0
    most: float = 0
    weight: int = 1
    owns: str = ""
    loses: bool = False


KINDS = (
    Kind("packager-kill", ("packager",), 0, 6, weight=2),
    Kind("packager-restart", ("packager",), 0, 4),
    # May outlast a session (6 s; 10 s with --kafka): the worker then finds that others have its partitions.
    Kind("packager-stall", ("packager",), 2, 12, weight=2),
    Kind("packager-leave", ("packager",), 8, 15),
    Kind("pusher-kill", ("pusher",), 0, 4),
    Kind("pusher-restart", ("pusher",), 0, 4),
    Kind("pusher-stall", ("pusher",), 2, 12),
    Kind("gateway-kill", ("gateway",), 0, 3),
    Kind("gateway-restart", ("gateway",), 0, 3),
    Kind("gateway-stall", ("gateway",), 1, 6),
    Kind("all-kill", ("packager", "pusher", "gateway"), 0, 3),
    Kind("redis-restart", ("redis",), 0, 5, owns="redis"),
    Kind("redis-kill", ("redis",), 0, 5, owns="redis"),
    Kind("redis-stall", ("redis",), 1, 8, owns="redis"),
    Kind("redis-empty", ("redis",), 0, 5, owns="redis", loses=True),
    Kind("redis-older", ("redis",), 0, 5, owns="redis", loses=True),
    Kind("redis-flush", ("redis",), owns="flush", loses=True),
    Kind("kafka-down", ("kafka",), 2, 15, owns="kafka"),
    Kind("kafka-stall", ("kafka",), 2, 15, owns="kafka"),
    # Some partitions of the orders' topic, as if the broker that leads them were dead.
    Kind("leaders-away", ("kafka",), 2, 15, weight=2, owns="kafka"),
    # Services and producer move to another Kafka, to which all topics were mirrored.
    Kind("region-move", ("kafka",), 0, 3, owns="kafka"),
    Kind("apns-restart", ("apns",), 0, 5, owns="apns"),
    Kind("apns-errors", ("apns",), owns="apns"),
    Kind("apns-goaway", ("apns",), owns="apns"),
    Kind("apns-cut", ("apns",), owns="apns"),
    Kind("apns-silence", ("apns",), owns="apns"),
    Kind("secrets-swap"),
    Kind("secrets-retoken"),
    Kind("partitions-grow", owns="partitions"),
    # Some orders are forgotten by the packager's command, beside the faults that follow; some of them are made anew.
    Kind("forget", weight=3),
    # The orders' topic is deleted and made anew with the last record of each key, so with lower offsets.
    Kind("topic-anew", owns="topic"),
)


@dataclasses.dataclass(frozen=True)
class Fault:
    """
    One fault.

    worker: from 1. hold: seconds until it is undone; gap: seconds before the next one, after the recovery if `waits`.
    """

    number: int
    kind: Kind
    worker: int
    hold: float
    gap: float
    waits: bool


def schedule(seed, kinds, workers):
    """
    Yields faults endlessly, the same ones for the same seed.

    >>> first, second = (schedule(7, choose(owned={"redis", "flush"}, loss=False), workers=3) for _ in range(2))
    >>> [next(first) for _ in range(100)] == [next(second) for _ in range(100)]
    True
    """
    lot = random.Random(seed)
    for number, kind in enumerate(bag([(kind, kind.weight) for kind in kinds], lot), 1):
        yield Fault(
            number, kind, worker=lot.randint(1, workers), hold=round(lot.uniform(kind.least, kind.most), 1),
            # Some faults come during the recovery from the one before.
            gap=round(lot.uniform(0.5, 4), 1), waits=lot.random() < 0.7)


def choose(owned, loss=True, only=(), without=()):
    """
    Returns the kinds of faults that a run may have.

    owned: what the run may break, because it started that itself or an option allows it; loss: true if Redis may lose
    its data; only, without: beginnings of names.

    >>> [kind.name for kind in choose(set(), only=("gateway",))]
    ['gateway-kill', 'gateway-restart', 'gateway-stall']
    >>> [kind.name for kind in choose({"kafka"}, only=("kafka", "region"))]
    ['kafka-down', 'kafka-stall', 'region-move']
    >>> [kind.name for kind in choose({"kafka", "topic"}, only=("leaders", "topic"))]
    ['leaders-away', 'topic-anew']
    >>> any(kind.services == ("kafka",) for kind in choose({"redis", "flush", "apns"}))
    False
    >>> [kind.name for kind in choose({"partitions"}, only=("secrets", "partitions"))]
    ['secrets-swap', 'secrets-retoken', 'partitions-grow']
    """
    return [
        kind for kind in KINDS
        if (not kind.owns or kind.owns in owned) and (loss or not kind.loses)
        and (not only or kind.name.startswith(tuple(only)))
        and not (without and kind.name.startswith(tuple(without)))
    ]
