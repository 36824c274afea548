"""
Sends notifications while APNs fails in every way that it can, then counts; started by compose/bench faults.

The services, broker and Redis are the stack's; devices register over the gateway, changes are put on `waybill.orders`
where the packager puts them. The faults are those of faults_plan.py, done by the simulator of APNs.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import confluent_kafka

from faults_judge import Findings, judge_registrations, judge_tellings
from faults_metrics import Metrics, Verdicts, judge_verdicts
from faults_plan import Plan
from faults_world import Changes, Device, Offsets, Registrar, Simulator, now
from stack import Failure, Publisher, Stack, example, resident_kb

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ORDERS_A_DEVICE, DEVICES_AN_ORDER = 2, 10
# Part of the notifications that come before the first fault: what the pusher needs then is what it needs warm.
CALM = 0.1
# What its memory may have grown by the end: a part, and what a busy allocator keeps.
GROWTH, KEPT_MB = 1.25, 16
PAUSE = 10
# Short sessions, so that the pusher that is started again need not wait for itself; see compose/benchmarks/chaos.py.
QUICK = "session.timeout.ms=6000\nheartbeat.interval.ms=500\n"
SETTINGS = {"WAYBILL_PUSH_WINDOW_MILLISECONDS": "100", "WAYBILL_PUSH_HOURLY_LIMIT": "0"}


def say(text):
    print(f"faults: {text}", file=sys.stderr, flush=True)


class Sampler:
    """The pusher's memory and open files, once a second."""

    def __init__(self, pid):
        self.pid, self.megabytes, self.files = pid, [], []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_over.wait(1):
            try:
                self.megabytes.append(resident_kb(self.pid) / 1024)
                self.files.append(len(os.listdir(f"/proc/{self.pid}/fd")))
            except (OSError, StopIteration):
                return

    def level(self, seconds=5):
        """Memory and files of late."""
        return (statistics.median(self.megabytes[-seconds:]), statistics.median(self.files[-seconds:]))

    def close(self):
        self.is_over.set()
        self.thread.join()


class Faults:
    def __init__(self, arguments, stack):
        self.arguments, self.stack = arguments, stack
        self.registrar, self.changes = Registrar(stack), Changes(stack)
        self.offsets, self.findings = Offsets(stack), Findings()
        self.seconds = arguments.notifications / arguments.rate
        self.plan = Plan(arguments.seed, arguments.faults, self.seconds * (1 - CALM), arguments.rate)
        self.lot = random.Random(arguments.seed + 1)
        orders = max(1, arguments.devices * ORDERS_A_DEVICE // DEVICES_AN_ORDER)
        self.by_order = {f"faults-{number}": [] for number in range(orders)}
        self.devices = []
        for number in range(arguments.devices):
            self.devices.append(Device(number, self.lot.sample(sorted(self.by_order), min(orders, ORDERS_A_DEVICE))))
            for order in self.devices[-1].orders:
                self.by_order[order].append(self.devices[-1])
        self.heroes = {}
        for story in self.plan.stories:
            hero = Device(arguments.devices + story.number, [f"story-{story.number}"], story)
            self.heroes[story.number] = hero
        self.done, self.simulator, self.sampler = collections.Counter(), None, None

    @property
    def everybody(self):
        return self.devices + list(self.heroes.values())

    # --- the run -------------------------------------------------------------------------------------------------------

    def run(self):
        self.prepare()
        begin = time.monotonic()
        self.registrar.open()
        self.registrar.register_all(self.everybody)
        say(f"{len(self.everybody)} devices registered in {time.monotonic() - begin:.1f} s")
        self.settle("the registrations")
        self.first = self.simulator.accepted
        self.load()
        self.settle("the last changes")
        time.sleep(PAUSE if not self.arguments.small else 2)
        self.last_level = self.sampler.level()
        after = Metrics.of(self.stack)
        self.simulator.close()
        if self.simulator.error:
            raise Failure(f"reading the deliveries: {self.simulator.error}")
        self.judge(Verdicts(self.before, after))

    def prepare(self):
        """Packages for all orders, then only those who tell of changes go on."""
        stack = self.stack
        subprocess.run([f"{ROOT}/compose/stack", "stop", "pusher", "--dir", stack.folder], check=True)
        document = example(ROOT)
        orders = list(self.by_order) + [hero.orders[0] for hero in self.heroes.values()]
        say(f"packaging {len(orders)} orders")
        Publisher(stack).replace_all({order: document for order in orders})
        subprocess.run([f"{ROOT}/compose/stack", "stop", "packager", "--dir", stack.folder], check=True)
        path = f"{stack.folder}/run/pusher.command"
        with open(path) as file:
            command = file.read()
        with open(path, "w") as file:
            settings = " ".join(f"{name}={value}" for name, value in SETTINGS.items())
            file.write(command.replace("exec env", f"exec env {settings}", 1))
        subprocess.run([f"{ROOT}/compose/stack", "start", "pusher", "--dir", stack.folder], check=True)
        self.simulator = Simulator(stack.env["APNS_ADMIN_URL"])
        self.sampler = Sampler(stack.pid("pusher"))
        self.before = Metrics.of(stack)

    def load(self):
        """Changes at the rate until enough notifications arrived, and the faults of the plan meanwhile."""
        orders = sorted(self.by_order)
        begin, steps = time.monotonic(), list(reversed(self.plan.steps))
        calm = self.seconds * CALM
        told, warm = 0.0, False
        self.calm_level = self.sampler.level()
        while True:
            elapsed = time.monotonic() - begin
            if elapsed >= calm and not warm:
                warm, self.warm_level = True, self.sampler.level()
                say(f"{elapsed:4.0f} s: {self.warm_level[0]:.0f} MB, the faults begin")
            while steps and steps[-1].at + calm <= elapsed:
                self.do(steps.pop(), elapsed)
            wanted = self.simulator.accepted - self.first < self.arguments.notifications
            if not steps and not wanted:
                break
            if elapsed > 4 * self.seconds + 60:
                self.findings.add("told", "the pusher is far behind the load")
                break
            if wanted:
                while told < elapsed * self.arguments.rate:
                    order = self.lot.choice(orders)
                    self.changes.change(order, self.by_order[order])
                    told += len(self.by_order[order])
            self.require_running()
            time.sleep(0.005)
        self.changes.flush()
        say(f"{elapsed:4.0f} s: {self.simulator.accepted - self.first} notifications, {self.changes.count} changes, "
            f"{sum(self.done.values())} faults")

    def do(self, step, elapsed):
        hero = self.heroes.get(step.story)
        if step.act == "change":
            return self.changes.change(hero.orders[0], [hero], step.must)
        if step.act == "register":
            hero.generation += step.renewed
            return self.registrar.register(hero, step.must)
        body = dict(step.body)
        if hero:
            body["token"] = hero.token
        if step.age is not None:
            body["timestampEpochMilliseconds"] = now() - int(step.age * 1000)
        self.simulator.ask("POST", "/faults", body)
        if step.act == "fault":
            self.done[step.name] += 1
            say(f"{elapsed:4.0f} s: {step.name} {json.dumps(dict(step.body)) if step.body else ''}")

    def settle(self, what):
        """Until all that was published is committed and nothing comes any more."""
        begin, topics = time.monotonic(), ("waybill.orders", "waybill.registrations")
        while True:
            behind = sum(self.offsets.lag(topic) for topic in topics)
            if behind == 0:
                break
            self.require_running()
            if time.monotonic() - begin > self.arguments.patience:
                self.findings.add("lag", f"{behind} records are not committed {self.arguments.patience} s after {what}")
                break
            time.sleep(0.2)
        count = -1
        while count != len(self.simulator.deliveries):
            count = len(self.simulator.deliveries)
            time.sleep(1.5)
        say(f"{what}: at rest after {time.monotonic() - begin:.1f} s")

    def require_running(self):
        if self.simulator.error:
            raise Failure(f"reading the deliveries: {self.simulator.error}")
        if not os.path.exists(f"/proc/{self.sampler.pid}/stat"):
            raise Failure(f"the pusher ended, see {self.stack.folder}/log/pusher.log")

    # --- what came out -------------------------------------------------------------------------------------------------

    def judge(self, verdicts):
        findings, deliveries = self.findings, self.simulator.deliveries
        ended = judge_registrations(self.everybody, self.standing(), self.recorded(), findings)
        lost, explained = judge_tellings(self.everybody, deliveries, ended, findings)
        seen = collections.Counter(status for _, status, _, _, _ in deliveries)
        letters = self.offsets.records("waybill.dead-letters")
        self.judge_letters(letters)
        refused = sum(
            status == 400 and reason in ("BadDeviceToken", "DeviceTokenNotForTopic")
            for _, status, reason, _, _ in deliveries)
        stuck = sum(hero.story.letters for hero in self.heroes.values())
        judge_verdicts(verdicts, {
            "accepted": seen[200], "perhaps_lost": lost, "ended": len(ended), "refused": refused, "given_up": stuck,
        }, findings)
        (warm, warm_files), (end, end_files) = self.warm_level, self.last_level
        if end > warm * GROWTH + KEPT_MB:
            findings.add("memory", f"{warm:.0f} MB before the faults, {end:.0f} MB after them and a pause")
        if end_files > warm_files + 8:
            findings.add("memory", f"{warm_files:.0f} open files before the faults, {end_files:.0f} after them")
        self.tell(verdicts, seen, explained, len(ended), len(letters))

    def judge_letters(self, letters):
        wanted = {f"{self.stack.type}/{hero.orders[0]}": hero for hero in self.heroes.values() if hero.story.letters}
        count = collections.Counter(key for key, _, _ in letters)
        for key, value, headers in letters:
            if key not in wanted:
                reason = (headers.get("waybill-reason") or b"").decode(errors="replace")
                self.findings.add("letters", f"a dead letter of {key}: {reason}")
        for key, hero in wanted.items():
            if count[key] != hero.story.letters:
                self.findings.add("letters", f"{count[key]} dead letters of {key}, whose device APNs always refused")

    def standing(self):
        """Push tokens in Redis."""
        redis, found = self.stack.redis, {}
        places = [(device.name, order) for device in self.everybody for order in device.orders]
        for start in range(0, len(places), 500):
            some = places[start:start + 500]
            for name, order in some:
                redis.send("HGET", f"waybill:devices:{{{self.stack.type}/{order}}}", name)
            for place in some:
                record = redis.reply()
                if record:
                    found[place] = json.loads(record)["pushToken"]
        return found

    def recorded(self):
        """Push tokens in Kafka, by the last record of each registration."""
        found = {}
        for key, value, _ in self.offsets.records("waybill.registrations"):
            device, _, order = key.split("/")
            found[(device, order)] = json.loads(value)["pushToken"] if value else None
        return found

    def tell(self, verdicts, seen, explained, ended, letters):
        rows = [("faults", sum(self.done.values())), ("devices", len(self.everybody))]
        rows += [("changes", self.changes.count), ("simulator.requests", sum(seen.values()))]
        rows += [(f"simulator.status_{status or 'none'}", count) for status, count in sorted(seen.items())]
        rows += verdicts.shown() + [("ended", ended), ("dead_letters", letters), ("told_twice", explained)]
        print()
        for name, value in rows:
            print(f"{name:30} {value:10}")
        for name, (megabytes, files) in (("before", self.warm_level), ("after", self.last_level)):
            print(f"pusher's memory {name:14} {megabytes:10.1f} MB, {files:.0f} open files")
        print(f"{'most':30} {max(self.sampler.megabytes):10.1f} MB\n")
        for rule, texts in sorted(self.findings.by_rule.items()):
            print(f"{rule}: {len(texts)} differences")
            for text in texts[:10]:
                print(f"    {text}")
        print(f"{self.findings.count} differences, seed {self.arguments.seed}\n")
        figures = [
            ("faults", sum(self.done.values())), ("notifications", seen[200]), ("differences", self.findings.count),
            ("memory_before_mb", round(self.warm_level[0], 1)), ("memory_after_mb", round(self.last_level[0], 1)),
            ("memory_most_mb", round(max(self.sampler.megabytes), 1))]
        figures += [(f"wrong_{rule}", len(texts)) for rule, texts in sorted(self.findings.by_rule.items())]
        for name, value in figures:
            print(f"BENCH faults.{name} {value}")

    def close(self):
        if self.sampler:
            self.sampler.close()
        self.registrar.close()
        self.offsets.close()


def read_arguments():
    parser = argparse.ArgumentParser(prog="compose/bench faults", description="Sends while APNs fails, then counts.")
    parser.add_argument("--notifications", type=int, default=200_000, help="that APNs takes (200000)")
    parser.add_argument("--devices", type=int, default=20_000, help="each with two orders (20000)")
    parser.add_argument("--faults", type=int, default=200, help="drawn by lot (200)")
    parser.add_argument("--rate", type=int, default=800, help="notifications a second (800)")
    parser.add_argument("--seed", type=int, default=None, help="of all that is drawn by lot")
    parser.add_argument("--patience", type=int, default=240, help="seconds until all must be at rest (240)")
    parser.add_argument("--small", action="store_true", help="a hundredth of all, to see that it works")
    parser.add_argument("--keep", action="store_true", help="leaves logs and data in place also after success")
    arguments = parser.parse_args()
    if arguments.small:
        arguments.notifications, arguments.devices, arguments.faults, arguments.rate = 4000, 400, 20, 400
    if arguments.seed is None:
        arguments.seed = int.from_bytes(os.urandom(3), "big")
    if not (1 <= arguments.devices <= 100_000 and 1 <= arguments.notifications <= 2_000_000
            and 0 <= arguments.faults <= 10_000 and 1 <= arguments.rate <= 20_000):
        parser.error("1 to 100000 devices, 2000000 notifications, 10000 faults, 20000 a second")
    return arguments


def stack_command(folder, *words, seconds=1800):
    process = subprocess.Popen(
        [f"{ROOT}/compose/stack", *words, "--dir", folder], stdin=subprocess.DEVNULL, stdout=sys.stderr,
        start_new_session=True)
    try:
        return process.wait(seconds) == 0
    except BaseException:
        # SIGTERM, so that a stack that is coming up goes down again.
        process.terminate()
        process.wait()
        raise


def main():
    arguments = read_arguments()
    folder = tempfile.mkdtemp(prefix="waybill-faults.")
    faults, interrupted = None, False

    def interrupt(*_):
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        with open(f"{folder}/kafka.properties", "w") as file:
            file.write(QUICK)
        os.environ["WAYBILL_KAFKA_PROPERTIES"] = file.name
        if not stack_command(folder, "up"):
            raise Failure("the stack does not come up")
        say(f"seed {arguments.seed}, in {folder}")
        faults = Faults(arguments, Stack(ROOT, folder))
        faults.run()
        return 1 if faults.findings.count else 0
    except KeyboardInterrupt:
        interrupted = True
        return 130
    finally:
        failed = sys.exc_info()[0] is not None or (faults and faults.findings.count)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if faults:
            faults.close()
        stack_command(folder, "down", seconds=600)
        if arguments.keep or (failed and not interrupted):
            say(f"logs and data are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, OSError, confluent_kafka.KafkaException, subprocess.CalledProcessError) as failure:
        say(str(failure))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
