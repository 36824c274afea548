"""One run of compose/bench faults: devices, load and faults until everything is processed, then the checks."""

import collections
import contextlib
import json
import os
import random
import statistics
import time

from devices import Device, Registrar, now
from faults_judge import (
    Findings, Record, is_final, judge_connections, judge_lag, judge_letters, judge_memory, judge_registrations,
    judge_tellings)
from faults_metrics import Verdicts, judge_verdicts
from faults_plan import brown_out, plan
from faults_stage import TYPES, Changes, Stage
from metrics import Metrics
from pace import Repeater
from processes import memory_mb
from simulator import Simulator
from stack import Failure, say
from subject import Bench
from topics import Offsets

ORDERS_A_DEVICE, DEVICES_AN_ORDER = 2, 10
# The part of the run before the first fault; at its end the pusher is warmed up.
CALM = 0.1
# Seconds of rest after the last notification, before memory is compared.
PAUSE = 10
# Faults after which connections answer nothing.
SILENT = ("silence", "silence-amid", "black-hole", "unheard", "mute")


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
    rules = (
        "told", "double", "retired", "registrations", "verdicts", "letters", "lag", "memory", "connections",
        "violations")

    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        self.stage = Stage(stack, arguments.attempts, arguments.pushers)
        self.findings, self.done = Findings(), collections.Counter()
        self.seconds = arguments.notifications / arguments.rate
        self.steps, self.stories = brown_out(arguments.brown_out) if arguments.brown_out is not None else plan(
            arguments.seed, arguments.faults, self.seconds * (1 - CALM), arguments.rate, not arguments.once)
        self.lot = random.Random(arguments.seed + 1)
        self.by_order, self.devices, self.heroes = {}, [], {}
        # The index of the first delivery that counts; (moment, committed offsets) of each kill and restart of a worker.
        self.first_delivery, self.rebalances = 0, []
        self.populate()

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
        self.first = self.simulator.accepted
        self.load()
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
        told, warm = 0.0, False
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
                self.findings.add("told", "the pusher is far behind the load")
                break
            while told < elapsed * self.arguments.rate and self.wants_more():
                order = self.next_order(orders)
                self.changes.change(order, self.by_order[order])
                told += len(self.by_order[order])
            self.require_running()
            time.sleep(0.005)
        self.changes.flush()
        say(f"{elapsed:4.0f} s: {self.simulator.accepted - self.first} notifications, {self.changes.count} changes, "
            f"{sum(self.done.values())} faults")

    def wants_more(self):
        return self.simulator.accepted - self.first < self.arguments.notifications

    def next_order(self, orders):
        return self.lot.choice(orders)

    def do(self, step, elapsed):
        hero = self.heroes.get(step.story)
        if step.act == "change":
            return self.changes.change(hero.orders[0], [hero])
        if step.act == "register":
            hero.generation += step.renewed
            return self.registrar.register([hero])
        body = step.body | ({"token": hero.token} if hero else {})
        crowd = self.devices if step.credential is None else self.devices[step.credential::len(TYPES)]
        for device in self.lot.sample(crowd, min(step.others, len(crowd))):
            self.simulator.ask("POST", "/faults", body | {"token": device.token})
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
        if not os.path.exists(f"/proc/{self.sampler.pid}/stat"):
            raise Failure(f"the pusher ended, see {self.stack.folder}/log/pusher.log")

    # --- judging and report -------------------------------------------------------------------------------------------

    def judge(self, verdicts):
        findings, deliveries, credentials = self.findings, self.simulator.deliveries[self.first_delivery:], len(TYPES)
        # The simulator lists answers that were perhaps not read only once their connection has ended.
        self.stack.stop(*self.stage.pushers)
        record = Record(deliveries, self.begin, self.simulator.ask("GET", "/unheard")["deliveries"])
        recorded, tombstones = self.recorded()
        ended = judge_registrations(self.everybody, self.standing(), recorded, record, findings)
        excuses = self.judge_tellings(record, ended)
        letters = self.letters()
        bad = {hero.number for hero in self.heroes.values() if hero.story.name == "bad-token"}
        # A bad push token has a dead letter if the breaker kept its registration.
        judge_letters(
            {hero.orders[0]: hero.story.letters + (hero.number in bad - ended) for hero in self.heroes.values()
             if hero.story.letters or hero.number in bad - ended}, letters, findings)
        # The counters are those of the first worker only, and a restart resets them.
        if len(self.stage.pushers) == 1 and not self.arguments.kill_seconds:
            judge_verdicts(verdicts, {
                "statuses": record.statuses, "accepted": record.statuses["200"], "perhaps_lost": record.lost,
                "ended": len(ended), "tombstones": tombstones, "bad_retired": len(ended & bad),
                "refused": sum(request.status == 400 and is_final(request) for request in deliveries),
                "outdated": sum(
                    request.status == 410 for device in self.everybody if device.number not in ended
                    for request in record.requests(device)),
                "given_up": sum(hero.story.stuck for hero in self.heroes.values()), "letters": len(letters),
            }, findings)
            self.judge_ends(verdicts)
            judge_memory(self.warm_level, self.last_level, credentials, findings)
        silences = sum(self.done[name] for name in SILENT) + 2 * len(self.rebalances)
        judge_connections(
            self.connections, self.statistics["violations"], credentials * len(self.stage.pushers), silences, findings)
        self.tell(verdicts, record, {
            "ended": len(ended), "tombstones": tombstones, "dead_letters": len(letters), "unheard": record.lost,
            "told_twice": excuses.total()})

    def judge_tellings(self, record, ended):
        """Returns the numbers of explained duplicates, by explanation."""
        return judge_tellings(self.everybody, record, ended, self.findings)

    def judge_ends(self, verdicts):
        """Checks nothing: many changes are coalesced."""

    def letters(self):
        """Returns (key, reason) of all dead letters."""
        return [(key, (headers.get("waybill-reason") or b"").decode(errors="replace"))
                for key, _, headers in self.offsets.records("waybill.dead-letters")]

    def standing(self):
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

    def tell(self, verdicts, record, counts):
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
        for rule in self.rules:
            self.report.figure(f"faults.wrong_{rule}", len(self.findings.by_rule[rule]))
