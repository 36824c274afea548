"""Drawing by lot."""


def bag(kinds, lot):
    """
    Kinds without end; all come before one comes again as often as it weighs.

    kinds: pairs with their weights.

    >>> import random
    >>> drawn = bag((("a", 1), ("b", 2)), random.Random(3))
    >>> sorted(next(drawn) for _ in range(6))
    ['a', 'a', 'b', 'b', 'b', 'b']
    """
    while True:
        # First each once, so that a short plan has most of them.
        each = [kind for kind, _ in kinds]
        lot.shuffle(each)
        rest = [kind for kind, weight in kinds for _ in range(weight - 1)]
        lot.shuffle(rest)
        yield from each + rest
