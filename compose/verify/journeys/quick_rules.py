"""Rules for Prometheus in which an hour is a minute, so that a provoked alert fires and ends within seconds."""

import math
import re

# What windows, waits and counted limits of quickened rules are divided by. Rates and shares stay as they are.
SPEED = 60
UNITS = {"s": 1, "m": 60, "h": 3600}
# Two scrapes at least, and one that is late.
SHORTEST = 4
DURATION = re.compile(r"^(\d+)([smh])$")


def quicker(duration, least):
    """
    Divides a duration by SPEED.

    >>> quicker("15m", 1), quicker("5m", 4), quicker("1m", 4), quicker("2h", 1)
    ('15s', '5s', '4s', '120s')
    """
    number, unit = DURATION.match(duration).groups()
    return f"{max(least, int(number) * UNITS[unit] // SPEED)}s"


def quickened(rule):
    """
    Returns a rule with everything that takes time divided by SPEED.

    >>> quickened({"alert": "A", "for": "10m", "expr": "max(waybill_parked_oldest_seconds) > 600"})
    {'alert': 'A', 'for': '10s', 'expr': 'max(waybill_parked_oldest_seconds) > 10'}
    >>> quickened({"record": "r", "expr": "sum(rate(a[1h])) > 5"})["expr"]
    'sum(rate(a[60s])) > 5'
    >>> quickened({"record": "r", "expr": "a < (a offset 1h)"})["expr"]
    'a < (a offset 60s)'
    >>> quickened({"alert": "A", "expr": "increase(a[10m]) > 20"})["expr"]
    'increase(a[10s]) > 1'
    """
    expression = re.sub(r"\[(\w+)\]", lambda found: f"[{quicker(found[1], SHORTEST)}]", rule["expr"])
    expression = re.sub(r"(?<=offset )\w+", lambda found: quicker(found[0], 1), expression)
    if "rate(" not in expression:
        expression = re.sub(
            r"> (\d+)$", lambda found: f"> {math.ceil(int(found[1]) / SPEED)}", expression.rstrip())
    return rule | {"expr": expression} | ({"for": quicker(rule["for"], 1)} if "for" in rule else {})
