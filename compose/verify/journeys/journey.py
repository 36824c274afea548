"""compose/journey: changes the world around the services under load, then compares everything."""

import os
import pkgutil
import subprocess
import sys

from options import flag, list_programs, number, parser_of, word
from stack import ROOT, Failure, Stack, catch_signals, exit_code, ignore_signals, program
from subject import QUICK_METADATA

# Class, description, options.
JOURNEYS = {
    "rotation": (
        "rotation:Rotation",
        "the token secret changes, at one checkout a minute before the services and at another one a minute after "
        "them; then orders get new tokens and the old secret is withdrawn",
        {"minute": number(10, "seconds of this minute (10)"), "rate": number(80, "steps of devices a second (80)"),
         "second-line": flag("the services have the new secret as their second line before any checkout has it")}),
    "region": (
        "region:Region",
        "producers and services move to another Kafka, to which orders and registrations were mirrored",
        {"changes": number(10_000, "changes of all orders (10000)"), "lose-redis": flag("and to an empty Redis")}),
    "restarts": (
        "restarts:Restarts",
        "two gateways behind a proxy are restarted in turn, and no client notices; the proxies are Debian's packages",
        {"proxies": word("haproxy,haproxy-tcp,nginx,caddy or some of them; haproxy-tcp comes last, since the gateways "
                         "have TLS from then on", default="haproxy,nginx,caddy,haproxy-tcp"),
         "restarts": number(20, "restarts behind each proxy (20)"),
         "drain": number(10, "WAYBILL_DRAIN_SECONDS; 0 shows what it prevents (10)", 0, 300),
         "rate": number(400, "requests a second that are looked at one by one, half of them POST (400)"),
         "crowd": number(2000, "requests a second of h2load beside them; 0 for none (2000)", 0)}),
    "probes": (
        "probes:Probes",
        "Redis, Kafka and APNs are away, Redis is emptied, and threads stand still (as root): what /livez says",
        {"seconds": number(300, "seconds that each upstream is away (300)"),
         "orders": number(80_000, "orders that are restored; the stack's broker keeps 5 MB of a partition (80000)"),
         "rate": number(40, "requests a second of devices (40)")}),
    "confirmations": (
        "confirmations:Confirmations",
        "checkouts are killed while they confirm payments at a provider that fails in every way; each request is repeated",
        {"payments": number(10_000, "payments (10000)"), "pause": number(8, "seconds between two kills (8)")}),
    "foreign": (
        "foreign:Foreign",
        "nginx, h2o and Caddy take APNs' place for a while, and no notification is lost; they are Debian's packages",
        {"servers": word("some of 'nginx 404,nginx 301,nginx 400,h2o 405,caddy 421,caddy 200 KB', which are all",
                         default="nginx 404,nginx 301,nginx 400,h2o 405,caddy 421,caddy 200 KB"),
         "seconds": number(30, "seconds of each (30)"),
         "rate": number(20, "changes of orders a second (20)")}),
    "alerts": (
        "alerts:Alerts",
        "each alert of compose/operate/alerts is provoked, fires in a Prometheus, and is silent again; none fires before "
        "that, and each query of the dashboards gives a series. Prometheus is Debian's package",
        {"minutes": number(60, "minutes of ordinary load, with the rules as they are (60)", 0),
         "scenes": word("names of provocations, separated by commas; a wrong one lists all (all)", default="all"),
         "rate": number(20, "changes, fetches, registrations and payments a second (20)")}),
    "ingest": (
        "mapped:Mapped",
        "workers of `waybill-packager ingest` are killed, registries fail, events have members that are not valid, and "
        "sources wait, flood, fail and loop; no event is lost, applied twice or delayed by another source",
        {"events": number(6000, "events of three topics while workers are killed (6000)"),
         "kills": number(4, "kills of a worker (4)", most=99),
         "seconds": number(8, "seconds that a registry is away (8)"),
         "adorned": number(40, "seconds of events with members that are not valid, which an alert notices; 0: none "
                           "(40)", 0),
         "waiting": number(20_000, "records of one source that wait; 0: no delays are measured (20000)", 0, 10_000_000),
         "seed": number(1, "the seed of the events and disturbances (1)")}),
    "traces": (
        "traces:Traces",
        "changes with a trace are found by it from their publisher to the device, and a collector of traces goes away",
        {}),
    "production": (
        "production:Production",
        "the commands of compose/deploy/production.md, with stand-ins for Apple, Kafka and Redis", {}),
    "upgrade": (
        "upgrade:Upgrade",
        "services are replaced by those of an earlier release and back, one after the other, under load",
        {"earlier": word("the folder of that release's programs", required=True),
         "orders": number(100, "orders, each with a device (100)")}),
    "partitions": (
        "partitions:Partitions",
        "the compacted topics get more partitions, and Redis is lost after `rekey`",
        {"kafka": word("HOST:PORT of a cluster without Waybill's topics, since the embedded broker's cannot grow",
                       required=True),
         "orders": number(600, "orders (600)")}),
}
DIR = {"dir": word("the folder of the stack, its logs and its data, which remain", required=True)}
# Without coalescing: each version causes a notification. Changed secrets are found within about two seconds.
ENVIRONMENT = {
    "WAYBILL_PUSH_WINDOW_MILLISECONDS": "0", "WAYBILL_PUSH_HOURLY_LIMIT": "0", "WAYBILL_BRANDS_RELOAD_SECONDS": "1",
    "WAYBILL_ORDER_CHANGE_TOPICS": r"waybill.order-changes,^.*\.waybill\.order-changes$",
}


def parser(name):
    _, text, options = JOURNEYS[name]
    return parser_of(f"compose/journey {name}", text, DIR | options)


def travel(make, arguments):
    # compose/prepare has just installed it.
    from confluent_kafka import KafkaException
    stack = Stack(os.path.abspath(f"{arguments.dir}/stack"))
    if os.path.exists(stack.folder):
        raise Failure(f"--dir {arguments.dir}: has the data of an earlier journey, name another folder")
    os.makedirs(stack.folder, exist_ok=True)
    os.environ |= ENVIRONMENT
    catch_signals()
    world = pkgutil.resolve_name(make)
    os.environ |= world.environment()

    def journey():
        try:
            if kafka := getattr(arguments, "kafka", None):
                subprocess.run(
                    [program("waybill-packager"), "topics", "--partitions", "16"], check=True,
                    stdout=subprocess.DEVNULL, env=os.environ | {"WAYBILL_KAFKA_BOOTSTRAP": kafka})
                stack.up("--kafka", kafka, kafka_properties=QUICK_METADATA)
            else:
                stack.up("--workers", str(world.WORKERS))
            return world(arguments, stack).run()
        finally:
            ignore_signals()
            stack.down()

    return exit_code(journey, KafkaException)


def main(words):
    name = words[0] if words else ""
    if name not in JOURNEYS:
        list_programs(map(parser, JOURNEYS))
        print("usage: compose/journey cluster --dir D\n\n"
              "    masters of a Redis Cluster fail: one is emptied, another one dies\n\n"
              "usage: compose/journey stream --dir D\n\n"
              "    orders with broken changes pass through two workers of each kind\n\n"
              "usage: compose/journey images --dir D [--without-registry [--programs FOLDER]]\n\n"
              "    the images run with Docker Compose, and each service is restarted")
        return 2
    arguments = parser(name).parse_args(words[1:])
    # A Prometheus watches them.
    is_watched = name == "alerts" or name == "ingest" and arguments.adorned
    needs = "alerts" if is_watched else "trials"
    subprocess.run([f"{ROOT}/compose/prepare", needs], check=True, stdout=sys.stderr)
    return travel(JOURNEYS[name][0], arguments)


sys.exit(exit_code(lambda: main(sys.argv[1:])))
