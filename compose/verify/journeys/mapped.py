"""
`waybill-packager ingest` maps the topics of a shop, its depot and carriers, while its workers are killed, are joined by
another one and stand still, registries fail in several ways, and sources wait, flood, fail and loop.

What becomes of each order is compared with `mapped_events.document`.
"""

import collections
import concurrent.futures
import contextlib
import json
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

from ingest.registry import UNKNOWN, Registry
from latency import stamps
from mapped_events import (
    BEGAN, DEPOT, MERCHANT, NOISE, SCANS, SCHEMA, SHOP, STATUSES, TRACKERS, URL, Event, adorned, difference,
    disturbances, document, interleaved, record, repeatable, scan, story)
from metrics import Metrics
from pace import paced
from processes import memory_mb
from report import percentile
from stack import ROOT, Failure, eventually, say
from subject import QUICK_SESSIONS
from topics import CHANGES, Producer, Reader
from world import World

LETTERS = "waybill.dead-letters"
WORKERS = ("ingest", "ingest-2")
# Events of an order. With those that are published once more they must stay among the last 32 of which the packager
# remembers the identifiers.
EACH = 20
# Orders that have events at a time, and the most records that wait while more are published.
ACTIVE, BACKLOG = 200, 1000
# Seconds that a worker stands still: longer than the session, so that its partitions move.
STILL = 9
# In what way a registry fails, in the sequence of the scenes. The last 404 is the registry's own.
TROUBLES = ("slow", "404", "401", "down", "missing")
# Seconds that a slow registry takes, and that other sources' events may take meanwhile.
SLOW, PROMPT = 4, 20
# Changes a second of mapped orders and of others whose delays are measured, and their number; the longest p99 in ms.
RATE, STEADY, LATE = 40, 120, 1000
# Orders for which a source waits; of each of them one in so many records says something.
WAITING_ORDERS, SAYING = 96, 50
# Events a second of which every tenth has a member that is not valid; what counts such members, and warns of them.
STREAM, TENTH = 300, 10
OMITTED, OMITS = "waybill_ingest_omitted_total", "WaybillSourceOmits"
# The most memory of a worker in MiB, however many records wait.
MEMORY = 200
# Records of a source that floods, fails, or whose program loops until its limit.
NOISES = {"drop": 30_000, "fail": 3000, "loop": 1000}


class SchemaRegistry(Registry):
    """A registry that knows one schema by any identifier. trouble: one of TROUBLES, but "down"; else empty."""

    def __init__(self, folder):
        super().__init__(SCHEMA, 0, folder)
        self.trouble = ""

    def answer(self, path):
        if self.trouble == "slow":
            time.sleep(SLOW)
        refusals = {"404": (404, b"not found"), "401": (401, b"{}"), "missing": (404, UNKNOWN)}
        return refusals.get(self.trouble, (200, self.content))

    def fail(self, trouble):
        self.trouble = trouble
        if trouble == "down":
            self.__exit__()

    def recover(self):
        if self.trouble == "down":
            self.open(self.port)
            self.thread.start()
        self.trouble = ""


class Mapped(World):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        self.lot = random.Random(arguments.seed)
        bootstrap = stack.env["KAFKA_BOOTSTRAP"]
        # A machine that does other work as well may need minutes for what waits. Of small batches the embedded broker
        # keeps fewer records.
        self.producer = Producer(bootstrap, {
            "partitioner": "murmur2_random", "compression.type": "lz4", "message.timeout.ms": 300_000,
            "linger.ms": 50})
        self.reader, self.packager = Reader(bootstrap, "waybill-ingest"), Reader(bootstrap, "waybill-packager")
        # Part of the orders' names: the stack of an earlier run in the same folder has left its orders in Redis.
        self.run_name = f"{int(time.time()):x}"
        # events: of each order. letters: expected, by code.
        self.events, self.letters, self.schema = collections.defaultdict(list), collections.Counter(), 1

    # --- the story ---------------------------------------------------------------------------------------------------

    def travel(self):
        folder = os.path.dirname(self.stack.env["ROOT_CA"])
        with SchemaRegistry(folder) as self.registry, SchemaRegistry(folder) as self.other_registry:
            self.set_up()
            self.disturb()
            self.repeat()
            for trouble in TROUBLES:
                self.trouble(trouble)
            if self.arguments.adorned:
                self.adorn()
            if self.arguments.waiting:
                self.crowd()
        self.reader.close()
        self.packager.close()

    def set_up(self):
        """Writes the sources, and starts their workers."""
        self.stack.stop("pusher")
        for topic in (SHOP, DEPOT, TRACKERS, NOISE, *SCANS):
            # The embedded broker creates it.
            self.producer.producer.list_topics(topic, timeout=10)
        sources = f"{self.stack.folder}/sources"
        shutil.copytree(f"{ROOT}/compose/verify/journeys/maps", sources, dirs_exist_ok=True)
        shutil.copytree(f"{sources}/trackers", f"{sources}/scans", dirs_exist_ok=True)
        self.write_source("shop", [SHOP], "json", {
            "owns": ["status", "statusDescription", "payment", "lineItems", "merchant"],
            "constants": {"shop": URL, "merchant": MERCHANT}})
        self.write_source("depot", [DEPOT], "cloudevents", {})
        self.write_source("trackers", [TRACKERS], "avro", {}, self.registry)
        self.write_source("scans", SCANS, "avro", {}, self.other_registry)
        self.write_source("noise", [NOISE], "json", {})
        properties = Path(f"{self.stack.folder}/ingest.properties")
        properties.write_text(Path(self.stack.env["KAFKA_PROPERTIES"]).read_text() + QUICK_SESSIONS)
        properties.chmod(0o600)
        # Longer than workers are away: nothing that waits for its order may become a dead letter.
        patience = "exec env WAYBILL_UNKNOWN_ORDER_SECONDS=300"
        self.stack.edit_command("packager", "exec env", patience)
        self.stack.restart("packager")
        # For the commands that replay dead letters, too.
        os.environ["WAYBILL_SOURCES"] = sources
        self.role = self.stack.command("packager").replace(
            "exec env", f"exec env WAYBILL_SOURCES={sources}").replace(
            self.stack.env["KAFKA_PROPERTIES"], str(properties)) + " ingest"
        for worker in WORKERS:
            self.add_service(worker, self.role)

    def write_source(self, name, topics, form, members, registry=None):
        source = {"topics": topics, "format": form, "name": f"/{name}", "orderType": self.type} | members
        folder = Path(f"{self.stack.folder}/sources/{name}")
        if registry:
            source["registry"] = {
                "url": f"https://localhost:{registry.port}", "addresses": ["127.0.0.1", "::1"], "roots": "root.pem"}
            shutil.copy(self.stack.env["ROOT_CA"], folder / "root.pem")
        (folder / "source.json").write_text(json.dumps(source))

    # --- events ------------------------------------------------------------------------------------------------------

    def put(self, event):
        topic, key, value, headers = record(event, self.schema)
        self.producer.put(topic, key, value, headers=headers)

    def publish(self, events):
        """Publishes events, no more than BACKLOG ahead of the workers."""
        for number, event in enumerate(events):
            self.events[event.order].append(event)
            self.put(event)
            self.findings.saw(f"events of {event.topic}")
            if number % 100 == 99:
                self.producer.flush()
                eventually("the workers follow", lambda: self.lag() <= BACKLOG, 180)
        self.producer.flush()

    def names(self, kind, count):
        return [f"{kind}-{self.run_name}-{number}" for number in range(count)]

    def stories(self, name, orders, count):
        return interleaved((story(order, count, self.lot) for order in self.names(name, orders)), ACTIVE, self.lot)

    def lag(self, topics=(SHOP, DEPOT, TRACKERS)):
        return sum(map(self.reader.lag, topics))

    def await_done(self, topics=(SHOP, DEPOT, TRACKERS), seconds=180):
        eventually(lambda: f"mapping the last {self.lag(topics)} records", lambda: self.lag(topics) <= 0, seconds)
        eventually("packaging the changes", lambda: self.packager.lag(CHANGES) <= 0, seconds)

    # --- workers that are killed -------------------------------------------------------------------------------------

    def disturb(self):
        self.findings.phase = "workers are killed"
        plan = disturbances(self.arguments.kills, WORKERS, self.lot)
        events = list(self.stories("order", -(-self.arguments.events // EACH), EACH))
        parts = [
            events[len(events) * part // (len(plan) + 1):len(events) * (part + 1) // (len(plan) + 1)]
            for part in range(len(plan) + 1)]
        began, is_done = time.monotonic(), threading.Event()
        self.publish(parts[0])
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            harrying = pool.submit(self.harry, is_done)
            for part, (what, worker) in zip(parts[1:], plan):
                publishing = pool.submit(self.publish, part)
                self.disturb_one(what, worker)
                publishing.result()
            self.await_done()
            is_done.set()
            harrying.result()
        self.judge_mappers()
        say(f"{len(events)} events and {len(plan)} disturbances took {time.monotonic() - began:.0f} s")
        self.judge_documents()
        self.judge_letters()
        self.judge_changes()

    def harry(self, is_done):
        """Kills mapper processes of the workers until the event is set: their records are mapped again."""
        lot = random.Random(self.arguments.seed)
        while not is_done.wait(0.2 + lot.random()):
            # A worker or a process may end meanwhile.
            with contextlib.suppress(OSError, ValueError):
                children = [child for worker in WORKERS for child in self.mappers(worker)]
                if children:
                    os.kill(lot.choice(children), signal.SIGKILL)
                    self.findings.saw("mapper processes that were killed")

    def mappers(self, worker):
        """The mapper processes of a worker."""
        found = []
        for path in Path(f"/proc/{self.stack.pid(worker)}/task").glob("*/children"):
            # A thread that ends meanwhile has no file.
            with contextlib.suppress(OSError):
                found += [int(child) for child in path.read_text().split()]
        return found

    def judge_mappers(self):
        """Workers have at most four mapper processes and one that is ready, whatever came and went."""
        for worker in WORKERS:
            if (count := len(self.mappers(worker))) > 5:
                self.findings.add(f"{worker} has {count} mapper processes")
            self.findings.saw(f"mapper processes of {worker}", count)

    def disturb_one(self, what, worker):
        say(f"{what} {worker}".rstrip())
        self.findings.saw(f"disturbances: {what}")
        if what == "kill":
            self.stack.run("kill", worker)
            time.sleep(self.lot.random() * 2)
            self.stack.start(worker)
        elif what == "freeze":
            self.stack.signal(worker, signal.SIGSTOP)
            time.sleep(STILL)
            self.stack.signal(worker, signal.SIGCONT)
        elif what == "join":
            self.add_service("ingest-3", self.role)
        else:
            children = self.mappers("ingest-3")
            self.stack.stop("ingest-3")
            if left := [child for child in children if Path(f"/proc/{child}").exists()]:
                self.findings.add(f"{len(left)} of {len(children)} mapper processes stay behind ingest-3")

    def repeat(self):
        """Publishes all events with identifiers or numbers of their own once more."""
        self.findings.phase = "all events once more"
        say(self.findings.phase)
        orders = list(self.events)
        before = stamps(self.stack, orders)
        again = [[event for event in events if repeatable(event)] for events in self.events.values()]
        for number, event in enumerate(interleaved(again, ACTIVE, self.lot)):
            self.put(event)
            self.findings.saw("events published once more")
            if number % 100 == 99:
                self.producer.flush()
                eventually("the workers follow", lambda: self.lag() <= BACKLOG, 180)
        self.producer.flush()
        self.await_done()
        after = stamps(self.stack, orders)
        for order in orders:
            if before[order] != after[order]:
                self.findings.add(f"order {order} has another version")
        self.findings.saw("versions that stayed", len(orders))
        self.judge_documents()
        self.judge_letters()

    # --- registries --------------------------------------------------------------------------------------------------

    def trouble(self, trouble):
        self.findings.phase = f"a registry {'is' if trouble in ('slow', 'down') else 'says'} {trouble}"
        say(self.findings.phase)
        self.registry.fail(trouble)
        # One that no worker has asked for.
        self.schema += 1
        events = list(self.stories(f"registry-{trouble}", min(20, -(-self.arguments.events // EACH)), EACH))
        began = time.monotonic()
        self.publish(events)
        orders = sorted({event.order for event in events})
        others = {order: document([each for each in self.events[order] if each.topic != TRACKERS]) for order in orders}
        waiting = sum(event.topic == TRACKERS for event in events)
        if trouble == "missing":
            self.letters["map-schema-missing"] += waiting
            self.await_done()
        elif trouble != "slow":
            eventually(
                "other sources' events", lambda: not any(self.differences(others).values()), PROMPT, pause=0.2)
            took = time.monotonic() - began
            self.findings.saw(f"{self.findings.phase}: ms until others are packaged", round(took * 1000))
            if trouble == "down":
                self.disturb_one("kill", WORKERS[0])
            time.sleep(max(0, began + self.arguments.seconds - time.monotonic()))
            if (left := self.reader.lag(TRACKERS)) < waiting:
                self.findings.add(f"{left} records wait instead of {waiting}")
        self.judge_letters()
        self.registry.recover()
        began = time.monotonic()
        if trouble == "missing":
            said = self.stack.run_program("packager", "dead-letters replay --code map-schema-missing --yes")
            say(said.strip().splitlines()[-1])
        self.await_done()
        self.findings.saw(f"{self.findings.phase}: ms until all is done", round((time.monotonic() - began) * 1000))
        self.findings.saw("records that waited for a registry", waiting)
        self.judge_documents(orders)
        self.judge_letters()

    # --- members that are not valid ------------------------------------------------------------------------------

    def adorn(self):
        """Streams reports of which every tenth has a member that is not valid, between others that are valid."""
        self.findings.phase = "members that are not valid"
        say(self.findings.phase)
        # It needs packages that a run without this scene does not.
        from prometheus import Prometheus
        targets = {"waybill-ingest": [f"127.0.0.1:{self.operations_port(worker)}" for worker in WORKERS]}
        prometheus = Prometheus(os.path.abspath(f"{self.arguments.dir}/prometheus"), targets)
        try:
            # An hour is a minute.
            prometheus.load(quick=True)
            for name, every in (("valid", 0), ("broken", TENTH), ("mended", 0)):
                self.stream(name, every)
                try:
                    eventually(
                        f"{OMITS} {'fires' if every else 'is silent'}",
                        lambda every=every: (OMITS in prometheus.firing()) == (every > 0), 30, 0.2)
                except Failure as failure:
                    self.findings.add(f"{name}: {failure}")
                self.await_done()
        finally:
            prometheus.stop()
        self.judge_documents()
        self.judge_letters()

    def stream(self, name, every):
        """Streams orders with this many reports to a member that is not valid, and compares what was left out."""
        before, count = self.metric_of_all(OMITTED), self.arguments.adorned * STREAM // EACH
        orders = (adorned(order, EACH, every, self.lot) for order in self.names(name, count))
        events = list(interleaved(orders, ACTIVE, self.lot))
        for event in paced(events, STREAM):
            self.events[event.order].append(event)
            self.put(event)
        self.producer.flush()
        broken = sum(event.broken != "" for event in events)
        self.findings.saw(f"reports with a member that is not valid, of {len(events)} events", broken)
        eventually("the last of them", lambda: self.lag() <= 0, 60)
        if (left := self.metric_of_all(OMITTED) - before) != broken:
            self.findings.add(f"of {broken} members that are not valid {left} were left out")

    # --- sources that wait, flood, fail and loop ---------------------------------------------------------------------

    def crowd(self):
        self.findings.phase = "many records wait"
        self.steady, self.direct = self.names("steady", STEADY), self.names("direct", STEADY)
        self.publisher.replace_with_example(self.direct)
        self.fast = Producer(self.stack.env["KAFKA_BOOTSTRAP"], {"partitioner": "murmur2_random", "linger.ms": 0})
        # Without the topic's metadata librdkafka sends the first records up to a second late.
        self.fast.producer.list_topics(SHOP, timeout=10)
        parcels = self.names("scan", WAITING_ORDERS)
        self.publish(
            [Event(SHOP, order, 0, {"state": "open", "cents": 1, "items": []}) for order in self.steady + parcels]
            + [Event(DEPOT, order, 1, {"shipment": "f0", "parcel": order, "status": "issue", "note": None})
               for order in parcels])
        self.await_done()
        self.measure("nothing else")
        self.wait(parcels)
        for kind, count in NOISES.items():
            self.make_noise(kind, count)
        self.judge_documents()

    def wait(self, parcels):
        """Lets one source's records wait for its registry."""
        count = self.arguments.waiting
        self.other_registry.fail("down")
        before = [self.memory(worker) for worker in WORKERS]
        began = time.monotonic()
        self.publish_scans(parcels, count)
        say(f"{count} records of a source were published in {time.monotonic() - began:.0f} s")
        eventually(
            lambda: f"{self.unworked()} of {count} records wait", lambda: self.unworked() >= count, 60 + count / 2000,
            0.5)
        self.measure(f"{count} records wait")
        for worker, memory in zip(WORKERS, before):
            now, most = self.memory(worker), self.memory(worker, "VmHWM")
            say(f"{worker}: {memory:.0f} MiB before, {now:.0f} MiB while {count} records wait, {most:.0f} MiB at most")
            if most > MEMORY:
                self.findings.add(f"{worker} had {most:.0f} MiB")
        self.judge_letters()
        self.other_registry.recover()
        began = time.monotonic()
        eventually("the first of them", lambda: self.mapped("scans") > 0)
        self.measure("they are worked off")
        self.await_done(SCANS, 120 + count / 200)
        say(f"they were worked off within {time.monotonic() - began:.0f} s")
        for worker in WORKERS:
            most = self.memory(worker, "VmHWM")
            say(f"{worker}: {most:.0f} MiB at most")
            if most > MEMORY:
                self.findings.add(f"{worker} had {most:.0f} MiB")
        if self.mapped("scans") < count:
            self.findings.add(f"{self.mapped('scans')} of {count} records were mapped")
        self.judge_documents(parcels)
        self.judge_letters()

    def publish_scans(self, parcels, count):
        """Publishes scans of parcels, those of a parcel on one topic."""
        rounds = -(-count // len(parcels))
        for number in range(count):
            turn, place = divmod(number, len(parcels))
            status = STATUSES[turn // SAYING % len(STATUSES)] if turn % SAYING == 0 or turn == rounds - 1 else ""
            event = Event(TRACKERS, parcels[place], turn + 2, {
                "shipment": "f0", "parcel": parcels[place], "status": status, "place": f"place {turn}", "id": ""})
            if status:
                self.events[event.order].append(event)
            moment = int(BEGAN.timestamp() + 60 * event.number) * 1000
            self.producer.put(SCANS[place % len(SCANS)], event.order, scan(event.body, moment, 1))
            # `flush` waits for a minute at most.
            if number % 10_000 == 9999:
                self.producer.flush()
        self.producer.flush()

    def make_noise(self, kind, count):
        self.findings.phase = {"drop": "a source floods", "fail": "a source fails", "loop": "a source loops"}[kind]
        for number in range(count):
            self.producer.put(NOISE, f"noise-{number}", json.dumps({"kind": kind}))
        self.producer.flush()
        self.letters.update({"fail": {"map-failed": count}, "loop": {"map-limit": count}}.get(kind, {}))
        self.measure(self.findings.phase)
        say(f"of {count} records {self.reader.lag(NOISE)} are left")
        self.await_done([NOISE], 300)
        self.judge_letters()

    def measure(self, what):
        """Measures from changes, of mapped orders and of others, to their packages."""
        orders = [order for pair in zip(self.steady, self.direct) for order in pair]
        before, sent = stamps(self.stack, orders), {}
        for order in paced(orders, RATE):
            sent[order] = time.time_ns()
            if order in self.direct:
                self.publisher.send(order, "patched", {"statusDescription": f"changed at {sent[order]}"})
            else:
                number = len(self.events[order])
                body = {"state": "open", "cents": 1, "items": [], "remark": f"no. {number}"}
                event = Event(SHOP, order, number, body)
                self.events[order].append(event)
                topic, key, value, _ = record(event, self.schema)
                self.fast.put(topic, key, value)
        self.fast.flush()
        self.publisher.flush()
        now = {}

        def are_packaged():
            now.update(stamps(self.stack, orders))
            return all(now[order] != before[order] for order in orders)

        eventually("packages of steady changes", are_packaged, 120, pause=0.1)
        for name, some in (("mapped", self.steady), ("direct", self.direct)):
            waits = [now[order] / 1000 - sent[order] / 1e6 for order in some]
            late = percentile(waits, 0.99)
            say(f"{what}: {name} changes are packaged after {percentile(waits, 0.5):.0f} ms, p99 {late:.0f} ms")
            self.findings.saw(f"p99 in ms, {name}: {what}", round(late))
            if late > LATE:
                self.findings.add(f"{name} changes take {late:.0f} ms")

    # --- what workers say --------------------------------------------------------------------------------------------

    def metric_of_all(self, name, **labels):
        return sum(
            Metrics.of(f"http://127.0.0.1:{self.operations_port(worker)}").total(name, **labels) for worker in WORKERS)

    def unworked(self):
        """Returns the number of records that the workers know of and have not done."""
        return sum(self.metric_of_all("waybill_unworked_records", topic=topic) for topic in SCANS)

    def mapped(self, source):
        return self.metric_of_all("waybill_ingest_records_total", source=source)

    def memory(self, worker, field="VmRSS"):
        return memory_mb(self.stack.pid(worker), field)

    # --- judging -----------------------------------------------------------------------------------------------------

    def differences(self, expected):
        """Returns how the documents of orders differ from others, by order."""
        found = self.stack.redis.ask_all(("HGET", self.stack.order_key(order), "document") for order in expected)
        return {
            order: difference(text and json.loads(text), whole)
            for (order, whole), text in zip(expected.items(), found)}

    def judge_documents(self, orders=None):
        expected = {order: document(self.events[order]) for order in orders or self.events}
        for order, text in self.differences(expected).items():
            if text:
                self.findings.add(f"order {order}: {text}")
        self.findings.saw("documents compared", len(expected))

    def judge_letters(self):
        """Requires that there are the expected dead letters, and no others."""
        found = collections.Counter(
            headers["waybill-error"].decode() for _, _, headers in self.reader.records(LETTERS)
            if "waybill-error" in headers)
        if found != self.letters:
            self.findings.add(f"the dead letters are {dict(found)} instead of {dict(self.letters)}")

    def judge_changes(self):
        """Requires that the packager has applied each change once, however often it was published."""
        seen, count = set(), 0
        for message in self.reader.messages(CHANGES):
            change = json.loads(message.value())
            seen.add((change["subject"], change["source"], change["id"]))
            count += 1
        applied, unchanged, skipped = (
            self.metric(f"waybill_changes_{what}_total") for what in ("applied", "unchanged", "skipped"))
        events = sum(map(len, self.events.values()))
        self.findings.saw("changes published again after a death or a rebalance", count - len(seen))
        if len(seen) != events:
            self.findings.add(f"{events} events made {len(seen)} changes")
        if (applied + unchanged, skipped) != (len(seen), count - len(seen)):
            self.findings.add(
                f"of {count} changes, {len(seen)} different ones, {applied} were applied, {unchanged} said nothing "
                f"new, {skipped} were skipped")
