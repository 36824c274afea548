"""
compose/bench: the subjects and their options. Each subject has its own stack, removed afterwards unless kept.

Prints tables for people and lines `BENCH <figure> <value>` for programs.
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
from stack import ROOT, Failure, Stack, catch_signals, exit_code, ignore_signals, own_environment, say


@dataclasses.dataclass(frozen=True)
class Subject:
    """
    A subject of compose/bench.

    make: module and callable, imported only after `needs` is installed. needs: words for compose/prepare.
    """

    make: str
    text: str
    options: dict
    needs: tuple = ("bench",)
    # True if it compares instead of measuring: its logs and data are kept after a difference or an error.
    is_trial: bool = False


ROUNDS = number(5, "rounds of measurements; the figures are their medians (5)")
ORDERS = number(20_000, "orders in the backlog, or orders that are lost (20000)")
MINUTES = number(10.0, "minutes that the flood or the silence lasts (10)", least=0.1)
# A new one for each run.
SEED = number(secrets.randbits(24), "seed of all random choices (random)", least=0, most=2 ** 63)
KEEP = flag("leave the stack running and keep its folder, whose path is printed")
KEEP_DATA = flag("keep logs and data even after success")


def seconds(default):
    return number(default, f"seconds of one measurement ({default})")


SUBJECTS = {
    "gateway": Subject(
        "gateway.bench:GatewayBench",
        "packages and 304s a second, compared with nginx serving files and nginx with Lua and Redis; memory of "
        "idle connections and of orders in Redis; latency at half load; checks that no answer is outdated",
        {"rounds": ROUNDS, "connections": number(64, "connections of the load (64)"), "seconds": seconds(4)}),
    "packager": Subject(
        "packager.bench:PackagerBench",
        "packages per second of CPU, compared with bare RSA signatures of libcrypto, a packager in Python and the "
        "openssl program; signatures of a backlog; latency at 300 changes a second; memory with backlogs and a slow "
        "Redis",
        {"rounds": ROUNDS, "orders": number(4000, "orders in the backlog of a round (4000)"), "seconds": seconds(10),
         "profile": flag("also show the functions that use its processor time")}, ("bench", "bench-python")),
    "followed": Subject(
        "packager.followed:FollowedBench",
        "signatures and processor time of a stream in which devices follow three of ten orders, with each version "
        "packaged and with those that somebody asks for; latency of fetches that ask",
        {"rounds": ROUNDS, "orders": number(1000, "orders of a round, with ten changes each (1000)"),
         "seconds": seconds(10)}),
    "cold": Subject(
        "packager.cold:ColdBench",
        "what Redis keeps of an order that ended a month ago, beside warm ones; what restoring such orders costs; "
        "latency of fetches of them; with --outage also of other orders, while cold ones cannot be read",
        {"orders": number(10_000, "orders (10000)"), "seconds": seconds(10),
         "outage": number(0, "seconds without leaders, and without Kafka; 300 take 13,300 orders (0)", least=0)}),
    "documents": Subject(
        "packager.documents:DocumentsBench",
        "latency at 300 new orders a second that name a picture and a receipt of their own, beside orders that name "
        "none; bytes in Redis",
        {"seconds": seconds(10)}),
    "pusher": Subject(
        "pusher.bench:PusherBench",
        "notifications a second on one connection, compared with h2load and senders in Python; latency from a "
        "change to APNs; memory of a queue; rates with delayed answers; a thousand streams compared with a hundred",
        {"rounds": ROUNDS, "notifications": number(200_000, "notifications in a round (200000)"),
         "seconds": seconds(10)}, ("bench", "bench-python")),
    "fleet": Subject(
        "fleet.bench:FleetBench",
        "changes a second and memory with 1, 2 and 4 packagers; a plot of the changes that wait",
        {"orders": ORDERS, "svg": word("file for the plot (waybill-fleet.svg)", default="waybill-fleet.svg"),
         "samples": word("file for a sample a second of the metrics that autoscaling reads; none by default")}),
    "restore": Subject(
        "restore.bench:RestoreBench",
        "orders and registrations restored a second after Redis was emptied, with 1 and 2 packagers",
        {"orders": ORDERS, "registrations": number(50_000, "registrations that are also lost (50000)"),
         "partitions": number(None, "partitions of orders and changes; 192 hold 200,000 orders (64: 100,000)")}),
    "isolation": Subject(
        "isolation.bench:bench",
        "latency of a brand, alone and beside another one in trouble, and memory. --service packager: from changes to "
        "packages, while a million changes of a brand wait that cannot be loaded, and are packaged once it is; "
        "--service pusher: from changes to APNs, while a brand changes in bulk, has a refused credential, or gets no "
        "answers from APNs for minutes, and all are notified in the end",
        {"service": word("the one that both share (packager)", choices=("packager", "pusher"), default="packager"),
         "waiting": number(None, "changes (packager: 1000000) or orders (pusher: 200000) of the other brand", 10,
                           9_999_999), "seconds": seconds(15),
         "rate": number(10_000, "pusher: changes a second of the other brand, as from five packagers (10000)"),
         "minutes": MINUTES}),
    "ingest": Subject(
        "ingest.bench:IngestBench",
        "records of 2, 7 and 19 kB that ingest maps per second of CPU, and Avro with a registry's framing, compared "
        "with jq and a mapper in Python; the time that it adds at 300 records a second; checks that each record made "
        "its change",
        {"rounds": ROUNDS, "records": number(3000, "records of 19 kB in a round; four times as many of 2 kB (3000)"),
         "seconds": seconds(10)}, ("bench", "bench-python")),
    "instructions": Subject(
        "instructions.bench:InstructionsBench",
        "instructions of a package, of a change without one, of a fetch with 200 and with 304, and of a notification, "
        "as the processor or valgrind counts them; compared with the table in compose/verify/benchmarks/instructions, "
        "changes of more than 2 % marked",
        {"rounds": number(3, "rounds of measurements; the figures are their medians (3)"),
         "update": flag("write the table")}, ("bench", "bench-instructions")),
    "growth": Subject(
        "growth.bench:GrowthBench",
        "what should cost the same, however many there are: memory, processor time and latency with more orders, "
        "connections, brands, sources, devices of an order and changes of an order; a page of plots",
        {"only": word("only this series; repeatable", action="append", choices=(
            "connections", "sources", "devices", "changes", "orders", "brands"), default=[]),
         "most": number(200_000, "leave out larger numbers (200000); two million orders: 7 GB", most=2_000_000),
         "svg": word("file for the plots (waybill-growth.svg)", default="waybill-growth.svg")}),
    "hostile": Subject(
        "hostile.bench:HostileBench",
        "latency of a well-behaved client, without and with hostile ones, and the gateway's memory: slow and idle "
        "connections from 20 addresses together with floods of wrong tokens, lists of changes, registrations and "
        "pipelined requests",
        {"minutes": MINUTES}),
    "bodies": Subject(
        "hostile.bodies:BodiesBench",
        "latency of well-behaved clients of the gateway and the checkout role beside bodies that never end, 1,000 of one "
        "address and 8,000 of twenty networks; memory of both", {}),
    "checkout": Subject(
        "checkout.bench:CheckoutBench",
        "latency of 200 merchant sessions a second; from a payment's answer to the package in the device, at 100 "
        "payments a second; at 100 payments a second with a shop that takes 24 s; of sessions, baskets and payments "
        "beside 300 baskets a second of another shop, whose service hangs; memory of the checkout role",
        {"orders": number(2000, "payments whose order is fetched (2000)"), "seconds": seconds(20),
         "neighbour-url": word("the service of the shop that hangs; by default one that never answers"),
         "system-roots": flag("check the shop's certificate against the system's roots, which have to have its own")}),
    "chaos": Subject(
        "chaos.bench:ChaosBench",
        "kills, stops, stalls and empties services and servers while orders stream through, then compares everything "
        "with the expected result",
        {"minutes": number(2.0, "minutes of changes and faults (2)", 0.2, 1440),
         "rate": number(40, "changes a second (40)", 1, 100_000),
         "orders": word("table of orders, CSV; generated without one"),
         "devices": number(60, "devices, each with up to three orders (60)"),
         "workers": number(3, "packagers, and as many pushers (3)", 1, 20),
         "seed": SEED,
         "kafka": word("HOST:PORT; never restarted, and gets partitions only with --grow-partitions"),
         "grow-partitions": flag("add partitions to topics of --kafka"),
         "topic-anew": flag("delete waybill.orders of --kafka and make it anew, with lower offsets"),
         "redis": word("URL; never restarted, and emptied only with --flush"),
         "flush": flag("allow FLUSHALL on the Redis of --redis"),
         "no-loss": flag("no faults in which Redis loses data"),
         "only": word("only faults whose names begin with this; repeatable", action="append", default=[]),
         "without": word("no faults whose names begin with this; repeatable", action="append", default=[]),
         "keep": KEEP_DATA}, ("trials",), is_trial=True),
    "faults": Subject(
        "faults.bench:FaultsBench",
        "sends notifications to devices while APNs fails, then checks deliveries, registrations and counters; with "
        "--once each device has one change, so that another change hides no loss",
        {"notifications": number(None, "notifications that APNs accepts (200000, small 4000)", 1, 2_000_000),
         "devices": number(None, "devices, each with two orders (20000, small 400)", 1, 100_000),
         "faults": number(None, "randomly chosen faults (200, small 20)", 0, 10_000),
         "rate": number(None, "notifications a second (800, small 400)", 1, 20_000),
         "attempts": number(None, "attempts for a device that APNs throttles (8, small 5)", 1, 100),
         "seed": SEED,
         "patience": number(300, "seconds within which everything must be processed (300)"),
         "small": flag("a fiftieth of the notifications and devices, as a quick check"),
         "once": flag("one change for each device, so that each loss shows"),
         "brown-out": number(None, (
             "implies --once; instead of the faults APNs answers 80 %% of all requests with 503 for this many "
             "seconds, at 200 changes a second")),
         "pushers": number(1, "with --once: number of pushers (1)", 1, 99),
         "kill-seconds": number(None, "with --once: seconds between two kills of a pusher"),
         "keep": KEEP_DATA}, ("trials",), is_trial=True),
}
# The subjects of `compose/bench all`: those that measure throughput.
ALL = ("gateway", "packager", "pusher", "ingest", "fleet", "restore")


def parser(title, names):
    options = {"keep": KEEP} if len(names) == 1 else {}
    for name in names:
        options |= SUBJECTS[name].options
    return parser_of(f"compose/bench {title}", "; ".join(SUBJECTS[name].text for name in names), options)


def measure(name, arguments):
    """Runs a subject and returns the exit code."""
    subject = SUBJECTS[name]
    for need in subject.needs + (("bench-profile",) if getattr(arguments, "profile", False) else ()):
        subprocess.run([f"{ROOT}/compose/prepare", need], check=True, stdout=sys.stderr)
    # compose/prepare may have installed it just now.
    from confluent_kafka import KafkaException
    if not subject.is_trial:
        allow_files(12_000)
    with own_environment():
        return exit_code(lambda: measure_with_stack(name, subject, arguments), KafkaException)


def measure_with_stack(name, subject, arguments):
    """Runs a subject with a new stack. Returns true if anything is wrong."""
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
                # After a failure, the figures measured before it.
                bench.report.show()
        finally:
            clean_up(stack, arguments.keep, subject.is_trial, is_wrong)


def clean_up(stack, is_kept, is_trial, is_wrong):
    folder = stack.folder
    if is_kept and not is_trial:
        say(f"kept: {folder}; remove it with: compose/stack down --dir {folder} && rm -rf {folder}")
        return
    stack.down()
    if is_trial and (is_kept or is_wrong):
        say(f"logs and data are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def allow_files(count):
    """Raises the limit of open files: the gateway and the client of idle connections hold ten thousand each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < count:
        raise Failure(f"{count} open files are needed, but the limit (ulimit -Hn) is {most}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))


def main(words):
    title = words[0] if words else ""
    if title != "all" and title not in SUBJECTS:
        list_programs(parser(name, [name]) for name in SUBJECTS)
        print(f"usage: compose/bench all: {', '.join(ALL)}, with the options of all of them\n\n"
              "compose/bench SUBJECT --help explains the options.")
        return 2
    names = ALL if title == "all" else [title]
    # Refuses options that no subject has; each subject then ignores those of the others.
    parser(title, names).parse_args(words[1:])
    for name in names:
        if status := measure(name, parser(name, [name]).parse_known_args(words[1:])[0]):
            return status
    return 0


sys.exit(exit_code(lambda: main(sys.argv[1:])))
