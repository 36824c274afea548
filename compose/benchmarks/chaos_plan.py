"""The faults of a chaos run and their order, by a seed."""

import dataclasses
import random


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of fault: its services, the seconds that they stay broken, and what the run must own or may lose."""

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
    # Longer than a session: a worker that wakes up finds that others have its partitions.
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
    # All move to another Kafka, to which everything was mirrored.
    Kind("region-move", ("kafka",), 0, 3, owns="kafka"),
    Kind("apns-restart", ("apns",), 0, 5, owns="apns"),
    Kind("apns-errors", ("apns",), owns="apns"),
    Kind("apns-goaway", ("apns",), owns="apns"),
    Kind("apns-cut", ("apns",), owns="apns"),
    Kind("apns-silence", ("apns",), owns="apns"),
    Kind("secrets-swap"),
    Kind("secrets-retoken"),
    Kind("partitions-grow", owns="partitions"),
)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault: `worker` counts from 1, `hold` are the seconds until it is undone, `gap` those after it."""

    number: int
    kind: Kind
    worker: int
    hold: float
    gap: float
    waits: bool


class Schedule:
    """
    Faults without end, the same ones for the same seed. All kinds come before one comes again as often as it weighs.

    >>> kinds = choose(owned={"redis", "flush"}, loss=False)
    >>> first, second = Schedule(7, kinds, workers=3), Schedule(7, kinds, workers=3)
    >>> [next(first) for _ in range(100)] == [next(second) for _ in range(100)]
    True
    """

    def __init__(self, seed, kinds, workers):
        if not kinds:
            raise ValueError("no kind of fault is left to choose from")
        self.random, self.kinds, self.workers = random.Random(seed), kinds, workers
        self.bag, self.number = [], 0

    def __iter__(self):
        return self

    def __next__(self):
        if not self.bag:
            self.bag = [kind for kind in self.kinds for _ in range(kind.weight)]
            self.random.shuffle(self.bag)
        kind = self.bag.pop()
        self.number += 1
        return Fault(
            self.number, kind, worker=self.random.randint(1, self.workers),
            hold=round(self.random.uniform(kind.least, kind.most), 1), gap=round(self.random.uniform(0.5, 4), 1),
            # Now and then the next fault comes into the recovery from this one.
            waits=self.random.random() < 0.7)


def choose(owned, loss=True, only=(), without=()):
    """
    The kinds that a run may have.

    owned: the parts that the run started itself and may break; loss: Redis may lose its data; only, without: beginnings
    of names.

    >>> [kind.name for kind in choose(set(), only=("gateway",))]
    ['gateway-kill', 'gateway-restart', 'gateway-stall']
    >>> [kind.name for kind in choose({"kafka"}, only=("kafka", "region"))]
    ['kafka-down', 'kafka-stall', 'region-move']
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
