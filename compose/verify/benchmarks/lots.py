"""Random draws."""


def bag(kinds, lot):
    """
    Yields kinds endlessly, in rounds in which each occurs as often as it weighs.

    kinds: pairs of kind and weight.

    >>> import random
    >>> drawn = bag((("a", 1), ("b", 2)), random.Random(3))
    >>> sorted(next(drawn) for _ in range(6))
    ['a', 'a', 'b', 'b', 'b', 'b']
    """
    while True:
        # Each once at first, so that a short plan has most of them.
        each = [kind for kind, _ in kinds]
        lot.shuffle(each)
        rest = [kind for kind, weight in kinds for _ in range(weight - 1)]
        lot.shuffle(rest)
        yield from each + rest
