"""A faults run in which each device has exactly one change: see faults_once.py for its rules."""

import threading

from faults_judge import judge_connections, judge_letters, judge_memory, judge_registrations, Record
from faults_metrics import judge_verdicts
from faults_once import Once, judge_ends
from faults_plan import BrownOut, Plan
from faults_run import CALM, SILENT, FaultsBench
from faults_stage import TYPES
from faults_world import Device, now
from stack import Failure, say
from topics import Offsets


class OnceFaultsBench(FaultsBench):
    """As many orders as devices, and as many changes; several workers, which may be killed."""

    rules = FaultsBench.rules + ("late", "excuses", "ends")

    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        self.todo = sorted(self.by_order)
        self.lot.shuffle(self.todo)
        self.rebalances, self.calm_moment, self.killer, self.is_over = [], 0, None, threading.Event()

    def make_plan(self):
        arguments = self.arguments
        if arguments.brown_out is not None:
            return BrownOut(arguments.brown_out)
        seconds = self.seconds * (1 - CALM)
        return Plan(arguments.seed, arguments.faults, seconds, arguments.rate, with_stories=False)

    def populate(self):
        for number in range(self.arguments.devices):
            order = f"{TYPES[number % len(TYPES)]}/once-{number}"
            self.devices.append(Device(number, [order]))
            self.by_order[order] = [self.devices[-1]]

    def wants_more(self):
        return bool(self.todo)

    def next_order(self, orders):
        return self.todo.pop()

    def load(self):
        # Registrations were told too: what counts begins now.
        for device in self.devices:
            device.events.clear()
        self.first_delivery = len(self.simulator.deliveries)
        self.first_sequence = self.simulator.last + 1
        self.before = self.metrics()
        if self.arguments.kill_seconds:
            self.killer = threading.Thread(target=self.kill_workers, daemon=True)
            self.killer.start()
        try:
            super().load()
        finally:
            self.is_over.set()
            if self.killer:
                self.killer.join()
        if self.arguments.brown_out is not None:
            self.calm_moment = self.begin + int(1000 * (self.seconds * CALM + self.arguments.brown_out))

    def kill_workers(self):
        """Kills one worker after the other and starts it again; notes the committed offsets each time."""
        turn = 0
        while not self.is_over.wait(self.arguments.kill_seconds):
            name = self.stage.pushers[turn % len(self.stage.pushers)]
            turn += 1
            for verb in ("kill", "start"):
                try:
                    self.stack.run(verb, name)
                except Failure as failure:
                    self.findings.add("lag", str(failure))
                    return
                self.rebalances.append((now(), self.committed()))
                self.done[f"{verb} {name}"] += 1
            say(f"killed {name} and started it again")

    def committed(self):
        """(Topic, partition) -> the offset that the workers have committed."""
        return {
            (place.topic, place.partition): max(0, place.offset) for topic in ("waybill.orders", Offsets.PENDING)
            for place in self.offsets.committed(topic)}

    def require_running(self):
        if not self.arguments.kill_seconds:
            super().require_running()

    def judge(self, verdicts):
        findings, deliveries = self.findings, self.simulator.deliveries[self.first_delivery:]
        record = Record(deliveries, self.begin, self.slow)
        recorded, tombstones = self.recorded()
        ended = judge_registrations(self.devices, self.standing(), recorded, record, findings)
        pending = self.offsets.places_by_key(Offsets.PENDING)
        changes = {
            device.token: (device.events[0][0], [
                ("waybill.orders", *self.changes.places[order]), *pending[order], *pending[f"{device.name}/{order}"]])
            for device in self.devices for order in device.orders}
        # The simulator judges the answers of a connection when that has ended.
        self.stack.stop(*self.stage.pushers)
        unheard = set(self.simulator.ask("GET", "/unheard")["deliveries"])
        once = Once(changes, deliveries, self.first_sequence, unheard, self.rebalances, self.calm_moment)
        once.judge(findings)
        letters = self.letters()
        judge_letters({}, letters, findings)
        seen = self.seen(deliveries)
        # The counters are the first worker's, and of its life.
        if not self.arguments.kill_seconds and len(self.stage.pushers) == 1:
            judge_ends(len(changes), verdicts, findings)
            judge_verdicts(verdicts, {
                "statuses": seen, "accepted": seen["200"],
                "perhaps_lost": sum(sequence >= self.first_sequence for sequence in unheard),
                "ended": len(ended), "tombstones": tombstones, "bad_retired": 0, "refused": 0, "outdated": 0,
                "given_up": 0, "letters": len(letters)}, findings)
            judge_memory(self.warm_level, self.last_level, len(TYPES), findings)
        silences = sum(self.done[name] for name in SILENT) + 2 * len(self.rebalances)
        judge_connections(
            self.connections, self.statistics["violations"], len(TYPES) * len(self.stage.pushers), silences, findings)
        self.tell(verdicts, seen, {"dead_letters": len(letters), "unheard": len(unheard)})
        for name, value in once.figures():
            self.report.figure(f"faults.once_{name}", value)
