"""
Sends notifications while APNs fails in every way that it can, then checks the results.

The services, broker and Redis are the stack's; devices register through the gateway, and changes are written to
`waybill.orders` in place of the packager. The APNs simulator injects the faults of plan.py. With --once each device has
one order with one change, and the workers may be killed.
"""

import collections
import contextlib
import itertools
import json
import os
import random
import statistics
import time

from devices import Device, Registrar, now
from faults.judge import (
    Findings, Record, is_final, is_killed, judge_connections, judge_dead_letters, judge_ends, judge_excuses, judge_lag,
    judge_memory, judge_notifications, judge_registrations, judge_waits)
from faults.plan import brown_out, plan
from faults.stage import TYPES, Changes, Stage
from faults.verdicts import Verdicts, judge_verdicts
from metrics import Metrics
from pace import Repeater
from processes import memory_mb
from report import percentile
from simulator import Simulator
from stack import Failure, say
from subject import Bench
from topics import Offsets

# The sizes without and with --small.
SIZES = {
    "notifications": (200_000, 4000), "devices": (20_000, 400), "faults": (200, 20), "rate": (800, 400),
    # Of a device that can never be notified: the pauses before the last three take about two minutes.
    "attempts": (8, 5),
}
RULES = (
    "missed", "double", "retired", "registrations", "verdicts", "dead_letters", "lag", "memory", "connections",
    "violations")
# The rules of --once besides.
ONCE_RULES = ("late", "excuses", "ends")
ORDERS_A_DEVICE, DEVICES_AN_ORDER = 2, 10
# The part of the run before the first fault; at its end the pusher is warmed up.
CALM = 0.1
# Seconds of rest after the last notification, before memory is compared.
PAUSE = 10
# Faults after which connections answer nothing.
SILENT = ("silence", "silence-amid", "black-hole", "unheard", "mute")


def set_sizes(arguments):
    """Sets the sizes that are not given."""
    arguments.once = arguments.once or arguments.brown_out is not None
    if not arguments.once and (arguments.pushers > 1 or arguments.kill_seconds):
        raise Failure("--pushers and --kill-seconds go with --once")
    if arguments.once:
        # As many devices as changes; in a brown-out, changes for its seconds and a few.
        rate, calm, count = (40, 10, 800) if arguments.small else (100, 20, 20_000)
        if arguments.brown_out:
            rate = rate if arguments.small else 200
            count = rate * (arguments.brown_out + calm)
        arguments.rate = arguments.rate or rate
        arguments.notifications = arguments.devices = arguments.notifications or arguments.devices or count
    for name, sizes in SIZES.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, sizes[arguments.small])


class Sampler:
    """Samples the first pusher's memory and open files, once a second while it runs."""

    def __init__(self, pid):
        self.pid, self.megabytes, self.files = pid, [], []
        self.looking = Repeater(self.look, 1)

    def look(self, _):
        with contextlib.suppress(OSError, StopIteration):
            self.megabytes.append(memory_mb(self.pid))
            self.files.append(len(os.listdir(f"/proc/{self.pid}/fd")))

    def level(self, seconds=5):
        """Returns the medians of the last samples: megabytes and open files."""
        return (statistics.median(self.megabytes[-seconds:]), statistics.median(self.files[-seconds:]))


class FaultsBench(Bench):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        set_sizes(arguments)
        self.stage = Stage(stack, arguments.attempts, arguments.pushers)
        self.findings, self.done = Findings(), collections.Counter()
        self.seconds = arguments.notifications / arguments.rate
        self.steps, self.stories = brown_out(arguments.brown_out) if arguments.brown_out is not None else plan(
            arguments.seed, arguments.faults, self.seconds * (1 - CALM), arguments.rate, not arguments.once)
        self.lot = random.Random(arguments.seed + 1)
        self.by_order, self.devices, self.heroes = {}, [], {}
        # The index of the first delivery that counts; (moment, committed offsets) of each kill and restart of a worker.
        self.first_delivery, self.rebalances = 0, []
        # The moment at which a brown-out ended, 0 without one; the workers, in the order in which they are killed.
        self.calm_moment, self.victims = 0, itertools.cycle(self.stage.pushers)
        (self.populate_once if arguments.once else self.populate)()
        # With --once: the orders that have no change yet.
        self.todo = sorted(self.by_order) if arguments.once else []
        self.lot.shuffle(self.todo)

    def set_up(self):
        self.stage.up()
        say(f"seed {self.arguments.seed}, in {self.stack.folder}")

    def populate(self):
        """Makes the devices, which share orders, and one device for each story of the plan."""
        arguments = self.arguments
        # Half of the devices have orders of the one brand, half of the other.
        orders = max(len(TYPES), arguments.devices * ORDERS_A_DEVICE // DEVICES_AN_ORDER)
        by_type = [[f"{kind}/faults-{number}" for number in range(place, orders, len(TYPES))]
                   for place, kind in enumerate(TYPES)]
        for number in range(arguments.devices):
            own = by_type[number % len(TYPES)]
            self.devices.append(Device(number, self.lot.sample(own, min(len(own), ORDERS_A_DEVICE))))
            for order in self.devices[-1].orders:
                self.by_order.setdefault(order, []).append(self.devices[-1])
        self.heroes = {
            story.number: Device(
                arguments.devices + story.number, [f"{TYPES[story.number % len(TYPES)]}/story-{story.number}"], story)
            for story in self.stories}

    def populate_once(self):
        for number in range(self.arguments.devices):
            order = f"{TYPES[number % len(TYPES)]}/once-{number}"
            self.devices.append(Device(number, [order]))
            self.by_order[order] = [self.devices[-1]]

    @property
    def everybody(self):
        return self.devices + list(self.heroes.values())

    # --- the run ------------------------------------------------------------------------------------------------------

    def measure(self):
        self.simulator = Simulator(self.stack.env["APNS_ADMIN_URL"])
        self.changes, self.offsets = Changes(self.stack), Offsets(self.stack)
        self.ending.callback(self.offsets.close)
        self.prepare()
        begin = time.monotonic()
        self.registrar = Registrar(self.stack)
        self.registrar.register(self.everybody)
        say(f"{len(self.everybody)} devices registered in {time.monotonic() - begin:.1f} s")
        self.settle("the registrations")
        if self.arguments.once:
            # Devices were also notified of their registrations; only later deliveries count.
            for device in self.devices:
                device.events.clear()
            self.first_delivery, self.before = len(self.simulator.deliveries), self.metrics()
        self.first, seconds = self.simulator.accepted, self.arguments.kill_seconds
        with Repeater(self.kill_next, 1 / seconds) if seconds else contextlib.nullcontext():
            self.load()
        if self.arguments.brown_out is not None:
            self.calm_moment = self.begin + int(1000 * (self.seconds * CALM + self.arguments.brown_out))
        self.settle("the last changes")
        time.sleep(2 if self.arguments.small else PAUSE)
        self.last_level = self.sampler.level()
        after = self.metrics()
        self.connections = self.simulator.ask("GET", "/connections")["connections"]
        self.statistics = self.simulator.ask("GET", "/statistics")
        self.simulator.close()
        self.judge(Verdicts(self.before, after))
        return self.findings.count > 0

    def metrics(self):
        return Metrics.of(self.stack.env["OPERATIONS_PUSHER"])

    def prepare(self):
        """Has all orders packaged, stops the packagers and starts the pushers."""
        orders = list(self.by_order) + [hero.orders[0] for hero in self.heroes.values()]
        say(f"packaging {len(orders)} orders")
        self.stage.package(orders)
        self.stack.start(*self.stage.pushers)
        self.sampler = Sampler(self.stack.pid("pusher"))
        self.ending.callback(self.sampler.looking.stop)
        # No device is registered yet, so these packages cause no notifications.
        self.settle("the orders")
        self.before = self.metrics()

    def load(self):
        """Publishes changes at the rate until APNs has accepted enough notifications; meanwhile injects the faults."""
        orders = sorted(self.by_order)
        begin, self.begin, steps = time.monotonic(), now(), list(reversed(self.steps))
        calm = self.seconds * CALM
        notified, warm = 0.0, False
        while True:
            elapsed = time.monotonic() - begin
            if elapsed >= calm and not warm:
                warm, self.warm_level = True, self.sampler.level()
                say(f"{elapsed:4.0f} s: {self.warm_level[0]:.0f} MB, the faults begin")
            while steps and steps[-1].at + calm <= elapsed:
                self.do(steps.pop(), elapsed)
            if not steps and not self.wants_more():
                break
            if elapsed > 4 * self.seconds + 60:
                self.findings.add("missed", "the pusher is far behind the load")
                break
            while notified < elapsed * self.arguments.rate and self.wants_more():
                order = self.todo.pop() if self.arguments.once else self.lot.choice(orders)
                self.changes.change(order, self.by_order[order])
                notified += len(self.by_order[order])
            self.require_running()
            time.sleep(0.005)
        self.changes.flush()
        say(f"{elapsed:4.0f} s: {self.simulator.accepted - self.first} notifications, {self.changes.count} changes, "
            f"{sum(self.done.values())} faults")

    def wants_more(self):
        if self.arguments.once:
            return bool(self.todo)
        return self.simulator.accepted - self.first < self.arguments.notifications

    def kill_next(self, _):
        """Kills the next worker and starts it again; records the committed offsets after each step."""
        name = next(self.victims)
        for verb in ("kill", "start"):
            try:
                self.stack.run(verb, name)
            except Failure as failure:
                return self.findings.add("lag", str(failure))
            self.rebalances.append((now(), self.committed()))
            self.done[f"{verb} {name}"] += 1
        return say(f"killed {name} and started it again")

    def committed(self):
        """Returns the offsets that the workers have committed, by (topic, partition)."""
        return {
            (place.topic, place.partition): max(0, place.offset) for topic in ("waybill.orders", Offsets.PENDING)
            for place in self.offsets.committed(topic)}

    def do(self, step, elapsed):
        hero = self.heroes.get(step.story)
        if step.act == "change":
            return self.changes.change(hero.orders[0], [hero])
        if step.act == "register":
            hero.generation += step.renewed
            return self.registrar.register([hero])
        body = step.body | ({"token": hero.push_token} if hero else {})
        crowd = self.devices if step.credential is None else self.devices[step.credential::len(TYPES)]
        for device in self.lot.sample(crowd, min(step.others, len(crowd))):
            self.simulator.ask("POST", "/faults", body | {"token": device.push_token})
        if not step.others:
            self.simulator.ask("POST", "/faults", body)
        self.done[step.name] += 1
        say(f"{elapsed:4.0f} s: {step.name} {json.dumps(step.body)}")

    def settle(self, what):
        """Returns when all records are committed, or patience is over, and no more requests come."""
        begin, topics = time.monotonic(), ("waybill.orders", "waybill.registrations", Offsets.PENDING)
        while True:
            behind = sum(self.offsets.lag(topic) for topic in topics)
            if behind == 0:
                break
            self.require_running()
            if time.monotonic() - begin > self.arguments.patience:
                judge_lag(behind, self.arguments.patience, what, self.findings)
                break
            time.sleep(0.2)
        self.simulator.settle()
        say(f"{what}: processed after {time.monotonic() - begin:.1f} s")

    def require_running(self):
        self.simulator.reading.require_running()
        if not self.arguments.kill_seconds and not os.path.exists(f"/proc/{self.sampler.pid}/stat"):
            raise Failure(f"the pusher ended, see {self.stack.folder}/log/pusher.log")

    # --- judging and report -------------------------------------------------------------------------------------------

    def judge(self, verdicts):
        findings, deliveries, credentials = self.findings, self.simulator.deliveries[self.first_delivery:], len(TYPES)
        # The simulator lists answers that were perhaps not read only once their connection has ended.
        self.stack.stop(*self.stage.pushers)
        record = Record(deliveries, self.begin, self.simulator.ask("GET", "/unheard")["deliveries"])
        recorded, tombstones = self.recorded()
        ended = judge_registrations(self.everybody, self.registered(), recorded, record, findings)
        once = self.arguments.once
        excuses = judge_notifications(
            self.everybody, record, ended, findings, self.repetitions() if once else None)
        if once:
            self.judge_once(record, excuses)
        dead_letters = self.dead_letters()
        bad = {hero.number for hero in self.heroes.values() if hero.story.name == "bad-token"}
        # A bad push token has a dead letter if the breaker kept its registration.
        judge_dead_letters(
            {hero.orders[0]: hero.story.dead_letters + (hero.number in bad - ended) for hero in self.heroes.values()
             if hero.story.dead_letters or hero.number in bad - ended}, dead_letters, findings)
        # The counters are those of the first worker only, and a restart resets them.
        if len(self.stage.pushers) == 1 and not self.arguments.kill_seconds:
            judge_verdicts(verdicts, {
                "statuses": record.statuses, "accepted": record.statuses["200"], "perhaps_lost": record.lost,
                "ended": len(ended), "tombstones": tombstones, "bad_retired": len(ended & bad),
                "refused": sum(request.status == 400 and is_final(request) for request in deliveries),
                "outdated": sum(
                    request.status == 410 for device in self.everybody if device.number not in ended
                    for request in record.requests(device)),
                "given_up": sum(hero.story.stuck for hero in self.heroes.values()), "dead_letters": len(dead_letters),
            }, findings)
            if once:
                judge_ends(len(self.devices), verdicts, findings)
            judge_memory(self.warm_level, self.last_level, credentials, findings)
        silences = sum(self.done[name] for name in SILENT) + 2 * len(self.rebalances)
        judge_connections(
            self.connections, self.statistics["violations"], credentials * len(self.stage.pushers), silences, findings)
        self.show(verdicts, record, {
            "ended": len(ended), "tombstones": tombstones, "dead_letters": len(dead_letters), "unheard": record.lost,
            "notified_twice": excuses.total()})

    def repetitions(self):
        """Returns a function that takes a device, a delivery and the next one; true if a kill explains the latter."""
        pending = self.offsets.places_by_key(Offsets.PENDING)

        def is_repeated(device, before, request):
            order = device.orders[0]
            places = [("waybill.orders", *self.changes.places[order]), *pending[order],
                      *pending[f"{device.name}/{order}"]]
            return is_killed(device.events[0][0], places, before.moment, request.moment, self.rebalances)

        return is_repeated

    def judge_once(self, record, excuses):
        judge_excuses(excuses["unheard"], len(self.devices), len(self.rebalances) // 2, self.findings)
        waits = judge_waits(self.devices, record, self.calm_moment, self.findings) or [0]
        figures = {f"excused_{name}": excuses[name] for name in ("unheard", "killed")} | {
            "wait_p50_s": percentile(waits, 0.5), "wait_p99_s": percentile(waits, 0.99), "wait_most_s": max(waits)}
        for name, value in figures.items():
            self.report.figure(f"faults.once_{name}", round(value, 2))

    def dead_letters(self):
        """Returns (key, reason) of all dead letters."""
        return [(key, (headers.get("waybill-reason") or b"").decode(errors="replace"))
                for key, _, headers in self.offsets.records("waybill.dead-letters")]

    def registered(self):
        """Returns the push tokens in Redis by (device, order)."""
        places = [(device.name, order) for device in self.everybody for order in device.orders]
        records = self.stack.redis.ask_all(("HGET", f"waybill:1:devices:{{{order}}}", name) for name, order in places)
        return {place: json.loads(record)["pushToken"] for place, record in zip(places, records) if record}

    def recorded(self):
        """Returns the push tokens by the last records in Kafka, None for a tombstone, and the number of tombstones."""
        found, tombstones = {}, 0
        for key, value, _ in self.offsets.records("waybill.registrations"):
            device, _, order = key.partition("/")
            found[(device, order)] = json.loads(value)["pushToken"] if value else None
            tombstones += not value
        return found, tombstones

    def show(self, verdicts, record, counts):
        seen = record.statuses
        rows = [(f"fault {name}", count) for name, count in sorted(self.done.items())]
        rows += [("devices", len(self.everybody)), ("changes", self.changes.count)]
        rows += [("simulator.requests", sum(seen.values()))]
        rows += [(f"simulator.status_{status}", count) for status, count in sorted(seen.items())]
        rows += verdicts.shown() + list(counts.items()) + [("connections.at_the_end", len(self.connections))]
        rows += [(f"connections.{name}", self.statistics[f"{name}Connections"]) for name in ("opened", "refused")]
        rows += [(f"simulator.{name}", self.statistics[name]) for name in ("goAways", "pings", "mostStreams")]
        rows += [("pusher.open_files_before", self.warm_level[1]), ("pusher.open_files_after", self.last_level[1])]
        print()
        for name, value in rows:
            print(f"{name:30} {value:10.0f}")
        print()
        for rule, texts in sorted(self.findings.by_rule.items()):
            print(f"{rule}: {len(texts)} differences")
            for text in texts[:10]:
                print(f"    {text}")
        print(f"{self.findings.count} differences, seed {self.arguments.seed}\n")
        self.report.figure("faults.faults", sum(self.done.values()))
        self.report.figure("faults.notifications", seen["200"])
        self.report.figure("faults.differences", self.findings.count)
        self.report.figure("faults.memory_before_mb", self.warm_level[0])
        self.report.figure("faults.memory_after_mb", self.last_level[0])
        self.report.figure("faults.memory_most_mb", max(self.sampler.megabytes))
        for rule in RULES + (ONCE_RULES if self.arguments.once else ()):
            self.report.figure(f"faults.wrong_{rule}", len(self.findings.by_rule[rule]))
