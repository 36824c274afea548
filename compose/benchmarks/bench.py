"""
compose/bench: the subjects and their options; each subject has a stack of its own, which is gone afterwards.

Prints tables for people, and lines `BENCH <figure> <value>` for programs.
"""

import dataclasses
import pkgutil
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile

from options import flag, list_programs, number, parser_of, word
from stack import ROOT, Failure, Stack, catch_signals, exit_code, ignore_signals, say


@dataclasses.dataclass(frozen=True)
class Subject:
    """
    make: module and class, which are imported once all is installed that they need. needs: words for compose/prepare.
    """

    make: str
    text: str
    options: dict
    needs: tuple = ("bench",)
    # Compares instead of measuring: after a difference its logs and data stay in place.
    is_trial: bool = False


ROUNDS = number(5, "how often all servers are measured in turn; the figures are medians (5)")
ORDERS = number(20_000, "orders of the backlog, or that are lost (20000)")
MINUTES = number(10.0, "how long floods or silence last (10)", least=0.1)
# Another one in each run.
SEED = number(secrets.randbits(24), "of all that is drawn by lot", least=0, most=2 ** 63)
KEEP = flag("leaves the stack running and its folder in place, and says where")
KEEP_DATA = flag("leaves logs and data in place also after success")


def seconds(default):
    return number(default, f"length of one measurement ({default})")


SUBJECTS = {
    "gateway": Subject(
        "gateway:GatewayBench",
        "packages and 304s a second beside nginx with static files and nginx with Lua asking Redis; memory of idle "
        "connections and of orders in Redis; waiting at half load; that no answer is older than what was published",
        {"rounds": ROUNDS, "connections": number(64, "kept open by the load at once (64)"), "seconds": seconds(4)}),
    "packager": Subject(
        "packager:PackagerBench",
        "packages per second of CPU beside bare RSA signatures of libcrypto, a packager in Python and the openssl "
        "program; signatures of a backlog; waiting at 300 changes a second; memory with backlogs and a slow Redis",
        {"rounds": ROUNDS, "orders": number(4000, "orders of a round's backlog (4000)"), "seconds": seconds(10),
         "profile": flag("also tells the functions that its processor time goes to")}, ("bench", "bench-python")),
    "pusher": Subject(
        "pusher:PusherBench",
        "notifications a second on one connection beside h2load and senders in Python; waiting from a change to APNs; "
        "memory of a queue; answers that come late; that a thousand streams are no slower than a hundred",
        {"rounds": ROUNDS, "notifications": number(200_000, "notifications of a round (200000)"),
         "seconds": seconds(10)}, ("bench", "bench-python")),
    "fleet": Subject(
        "fleet:FleetBench",
        "changes a second, lag over time and memory with 1, 2 and 4 packagers, as figures and as a plot",
        {"orders": ORDERS, "svg": word("the file of the plot (waybill-fleet.svg)", default="waybill-fleet.svg")}),
    "restore": Subject(
        "restore:RestoreBench",
        "orders and registrations a second that come back after Redis was emptied, with 1 and 2 packagers",
        {"orders": ORDERS, "registrations": number(50_000, "registrations that are lost as well (50000)"),
         "partitions": number(None, "of orders and their changes; 192 hold 200,000 orders (64, which hold 100,000)")}),
    "isolation": Subject(
        "isolation:IsolationBench",
        "how long a brand's changes take to their packages, alone and while a million of another brand wait that "
        "cannot be loaded; memory; that all of those are packaged when it is",
        {"waiting": number(1_000_000, "changes of the other brand (1000000)", 10, 9_999_999), "seconds": seconds(15)}),
    "pusher-isolation": Subject(
        "pusher_isolation:PusherIsolationBench",
        "how long a brand's changes take to APNs, alone, beside a bulk change of another brand, beside its refused "
        "credential and beside its APNs that answers nothing for minutes; memory; that all is told in the end",
        {"waiting": number(200_000, "orders of the other brand (200000)", 10, 9_999_999), "seconds": seconds(15),
         "rate": number(10_000, "changes a second of the other brand, as of five packagers (10000)"),
         "minutes": MINUTES}),
    "hostile": Subject(
        "hostile:HostileBench",
        "slow and idle connections from 20 addresses and floods of wrong tokens, lists of changes, registrations and "
        "pipelined requests at the same time: what a well-behaved client waits, beside what it waits in quiet, and "
        "the gateway's memory",
        {"minutes": MINUTES}),
    "checkout": Subject(
        "checkout:CheckoutBench",
        "what customers wait at 200 merchant sessions a second, at 100 payments a second until the order is in the "
        "device, and at 100 payments a second with a shop that takes 24 s; memory of the checkout role",
        {"orders": number(2000, "orders that are paid (2000)"), "seconds": seconds(20)}),
    "chaos": Subject(
        "chaos:ChaosBench",
        "kills, stops, stalls and empties what there is while orders stream through, then compares everything with "
        "what must have come out",
        {"minutes": number(2.0, "how long faults come (2)", 0.2, 1440),
         "rate": number(40, "changes a second (40)", 1, 100_000),
         "orders": word("a table of orders, CSV; without one they are made up"),
         "devices": number(60, "devices, each with up to three orders (60)"),
         "workers": number(3, "packagers, and as many pushers (3)", 1, 20),
         "seed": SEED,
         "kafka": word("HOST:PORT; it is not restarted, and gets partitions only with --grow-partitions"),
         "grow-partitions": flag("topics of --kafka get more partitions"),
         "redis": word("URL; it is not restarted, and emptied only with --flush"),
         "flush": flag("FLUSHALL is allowed on the Redis of --redis"),
         "no-loss": flag("Redis never loses what it has"),
         "only": word("only faults whose names begin so", action="append", default=[]),
         "without": word("no faults whose names begin so", action="append", default=[]),
         "keep": KEEP_DATA}, ("trials",), is_trial=True),
    "faults": Subject(
        "faults:bench",
        "sends notifications to devices while APNs fails, then compares who was told, who is registered and what was "
        "counted; with --once each device has one change, so that no loss hides after another change",
        {"notifications": number(None, "that APNs takes (200000, small 4000)", 1, 2_000_000),
         "devices": number(None, "each with two orders (20000, small 400)", 1, 100_000),
         "faults": number(None, "drawn by lot (200, small 20)", 0, 10_000),
         "rate": number(None, "notifications a second (800, small 400)", 1, 20_000),
         "attempts": number(None, "of a device that cannot be told (8, small 5)", 1, 100),
         "seed": SEED,
         "patience": number(300, "seconds until all must be at rest (300)"),
         "small": flag("a fiftieth of all, to see that it works"),
         "once": flag("each device has exactly one change, so each loss shows"),
         "brown-out": number(None, (
             "once, and instead of the faults APNs answers 80 %% with 503 for so many seconds, at 200 changes a "
             "second")),
         "pushers": number(1, "once: workers (1)", 1, 99),
         "kill-seconds": number(None, "once: how often one of them is killed"),
         "keep": KEEP_DATA}, ("trials",), is_trial=True),
}
# All that measure speed.
ALL = ("gateway", "packager", "pusher", "fleet", "restore")


def parser(title, names):
    options = {"keep": KEEP} if len(names) == 1 else {}
    for name in names:
        options |= SUBJECTS[name].options
    return parser_of(f"compose/bench {title}", "; ".join(SUBJECTS[name].text for name in names), options)


def measure(name, arguments):
    """Returns the exit code."""
    subject = SUBJECTS[name]
    for need in subject.needs + (("bench-profile",) if getattr(arguments, "profile", False) else ()):
        subprocess.run([f"{ROOT}/compose/prepare", need], check=True, stdout=sys.stderr)
    # Installed only now.
    from confluent_kafka import KafkaException
    if not subject.is_trial:
        allow_files(12_000)
    return exit_code(lambda: measure_with_stack(name, subject, arguments), KafkaException)


def measure_with_stack(name, subject, arguments):
    """Returns true if anything is wrong."""
    catch_signals()
    stack, bench, is_wrong = Stack(tempfile.mkdtemp(prefix=f"waybill-{name}.")), None, True
    try:
        bench = pkgutil.resolve_name(subject.make)(arguments, stack)
        bench.set_up()
        is_wrong = bench.measure()
        return is_wrong
    except KeyboardInterrupt:
        is_wrong = False
        raise
    finally:
        ignore_signals()
        try:
            if bench:
                bench.ending.close()
                # Also what was measured before something failed.
                bench.report.show()
        finally:
            clean_up(stack, arguments.keep, subject.is_trial, is_wrong)


def clean_up(stack, is_kept, is_trial, is_wrong):
    folder = stack.folder
    if is_kept and not is_trial:
        say(f"kept: {folder}; end it with: compose/stack down --dir {folder} && rm -rf {folder}")
        return
    stack.down()
    if is_trial and (is_kept or is_wrong):
        say(f"logs and data are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def allow_files(count):
    """The gateway and the client that opens idle connections hold some ten thousand sockets each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < count:
        raise Failure(f"{count} open files are needed, the limit (ulimit -Hn) is {most}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))


def main(words):
    title = words[0] if words else ""
    if title != "all" and title not in SUBJECTS:
        list_programs(parser(name, [name]) for name in SUBJECTS)
        print(f"usage: compose/bench all: {', '.join(ALL)}, with the options of these\n\n"
              "compose/bench SUBJECT --help tells the meaning of the options.")
        return 2
    names = ALL if title == "all" else [title]
    # Refuses what none of them takes; each leaves alone what is for others.
    parser(title, names).parse_args(words[1:])
    for name in names:
        if status := measure(name, parser(name, [name]).parse_known_args(words[1:])[0]):
            return status
    return 0


sys.exit(exit_code(lambda: main(sys.argv[1:])))
