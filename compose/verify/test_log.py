"""Reads the output of the tests: failed tests with their messages, the place of a crash, tests that did not end.

  test_log.py tell LOG            prints the failures, short enough for the end of a long output
  test_log.py ran LOG             fails if no test ran: the filter matches nothing
  test_log.py again FILTER LOG    prints the filter that runs the failed suites again, or everything after a crash
"""

import re
import sys

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ISSUE = re.compile(r"^✘ Test (.+?) recorded an issue(?: with .*?)? at (\S+): (.*)$")
STARTED = re.compile(r"^◇ Test (?!run |case )(.+) started\.$")
ENDED = re.compile(r"^[✔✘➜] Test (?!run |case )(.+?) (?:passed|failed|skipped)\b")
FAILED = re.compile(r"^✘ Test (?!run |case )(.+?) failed after ")
FAILED_SUITE = re.compile(r'^✘ Suite "?(.+?)"? failed after ')
# In the order of their appearance: messages of the C library or of Swift, then the backtrace.
CRASH = re.compile(r"Assertion|Fatal error|\*\*\* (?:Signal|Program crashed)|\bcrashed:$|unexpected signal|^free\(\)|^malloc")
ENDED_ALL = re.compile(r"^[✔✘] Test run with (\d+) ")
WIDTH = 400


def lines_of(text):
    """
    >>> lines_of("\\x1b[91m✘\\x1b[0m Test a() failed\\n")
    ['✘ Test a() failed']
    """
    return COLOURS.sub("", text).splitlines()


def issues(lines, most=6):
    """Returns the issues of each failed test, with the lines that belong to them.

    >>> issues(["✘ Test a() recorded an issue at A.swift:1:2: Expectation failed: x", "↳ why", "↳ more", "✔ Test b() passed"])
    {'a()': ['A.swift:1:2: Expectation failed: x', '↳ why', '↳ more']}
    >>> issues(["✘ Test a(n:) recorded an issue with 1 argument n → 3 at A.swift:1:2: no", "✘ Test c() failed after 2 seconds."])
    {'a(n:)': ['A.swift:1:2: no'], 'c()': []}
    """
    found, current = {}, None
    for line in lines:
        if match := ISSUE.match(line):
            current = found.setdefault(match[1], [])
            if f"{match[2]}: {match[3]}" in current:
                current = None
            else:
                current.append(f"{match[2]}: {match[3]}")
        elif line[:1] in "✔✘◇➜":
            current = None
            if match := FAILED.match(line):
                found.setdefault(match[1], [])
        elif current is not None and line.strip():
            current.append(line)
    return {test: [line[:WIDTH] for line in said[:most]] for test, said in found.items()}


def crash(lines, most=14):
    """Returns the lines about the place where the process crashed; none if it did not.

    >>> crash(["◇ Test a() started.", "x.c:1: f: Assertion `n' failed.", "Thread 5 crashed:", "0 raise + 1", "", "Registers:"])
    ["x.c:1: f: Assertion `n' failed.", 'Thread 5 crashed:', '0 raise + 1']
    >>> crash(["✔ Test run with 2 tests passed after 1 second."])
    []
    """
    first = next((index for index, line in enumerate(lines) if CRASH.search(line)), None)
    if first is None:
        return []
    kept = []
    for line in lines[first:]:
        if line.startswith("Registers:") or len(kept) == most:
            break
        if line.strip() and line[:1] not in "✔✘◇➜":
            kept.append(line[:WIDTH])
    return kept


def running(lines):
    """Returns the tests that started and did not end.

    >>> running(["◇ Test a() started.", "◇ Test b() started.", "✔ Test a() passed after 1 seconds."])
    ['b()']
    """
    left = []
    for line in lines:
        if match := STARTED.match(line):
            left.append(match[1])
        elif (match := ENDED.match(line)) and match[1] in left:
            left.remove(match[1])
    return left


def has_ended(lines):
    """Returns true if the run came to its end, successful or not.

    >>> has_ended(["✘ Test run with 3 tests in 1 suite failed after 2 seconds with 1 issue."])
    True
    """
    return any(ENDED_ALL.match(line) for line in lines)


def tell(lines, tests=25):
    """
    >>> tell(["✘ Test a() recorded an issue at A.swift:1:2: no", "✘ Test run with 1 test failed after 1 second."])
    ['  a()', '    A.swift:1:2: no']
    >>> tell(["◇ Test a() started."])
    ['  the run did not come to its end; still running: a()']
    """
    said = []
    found = issues(lines)
    for test, messages in list(found.items())[:tests]:
        said += [f"  {test}"] + [f"    {message}" for message in messages]
    if len(found) > tests:
        said.append(f"  and {len(found) - tests} more")
    if not has_ended(lines):
        left = running(lines)
        more = f" and {len(left) - 20} more" if len(left) > 20 else ""
        said.append(f"  the run did not come to its end; still running: {', '.join(left[:20])}{more}")
        said += [f"    {line}" for line in crash(lines) or lines[-6:] if not STARTED.match(line)]
    return said or ["  " + line[:WIDTH] for line in lines[-10:]]


def again(filter, lines):
    """
    >>> end = "✘ Test run with 2 tests"
    >>> again("^RedisTests\\\\.", ["✘ Suite ATests failed after 1 s", "✘ Suite BTests failed after 1 s", end])
    '^RedisTests\\\\.(ATests|BTests)/'
    >>> again("^RedisTests\\\\.", ["✘ Suite ATests failed after 1 s"])
    '^RedisTests\\\\.'
    """
    suites = [match[1] for line in lines if (match := FAILED_SUITE.match(line))]
    if not suites or not has_ended(lines):
        return filter
    room = filter.split(".", 1)[0]
    return f"{room}.({'|'.join(dict.fromkeys(suites))})/"


def ran(lines):
    """
    >>> ran(["✔ Test run with 0 tests in 0 suites passed after 0.001 seconds."])
    False
    """
    return any(int(match[1]) > 0 for line in lines if (match := ENDED_ALL.match(line)))


def main(arguments):
    lines = lines_of(open(arguments[-1], encoding="utf-8", errors="replace").read())
    if arguments[0] == "ran":
        sys.exit(0 if ran(lines) else 1)
    print(again(arguments[1], lines) if arguments[0] == "again" else "\n".join(tell(lines)))


if __name__ == "__main__":
    main(sys.argv[1:])
