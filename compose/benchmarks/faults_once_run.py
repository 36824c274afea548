"""A faults run in which each device has exactly one change: see faults_once.py for its rules."""

import contextlib
import itertools

from devices import Device, now
from faults_judge import judge_tellings
from faults_once import figures, is_killed, judge_ends, judge_excuses, judge_waits
from faults_run import CALM, FaultsBench
from faults_stage import TYPES
from pace import Repeater
from stack import Failure, say
from topics import Offsets


class OnceFaultsBench(FaultsBench):
    """A run with one order and one change for each device, and one or more workers, which may be killed."""

    rules = FaultsBench.rules + ("late", "excuses", "ends")

    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        self.todo = sorted(self.by_order)
        self.lot.shuffle(self.todo)
        self.calm_moment, self.victims = 0, itertools.cycle(self.stage.pushers)

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
        # Devices were also notified of their registrations; only later deliveries count.
        for device in self.devices:
            device.events.clear()
        self.first_delivery = len(self.simulator.deliveries)
        self.before = self.metrics()
        seconds = self.arguments.kill_seconds
        with Repeater(self.kill_next, 1 / seconds) if seconds else contextlib.nullcontext():
            super().load()
        if self.arguments.brown_out is not None:
            self.calm_moment = self.begin + int(1000 * (self.seconds * CALM + self.arguments.brown_out))

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

    def require_running(self):
        if not self.arguments.kill_seconds:
            super().require_running()

    def judge_tellings(self, record, ended):
        pending = self.offsets.places_by_key(Offsets.PENDING)

        def is_repeated(device, before, request):
            order = device.orders[0]
            places = [("waybill.orders", *self.changes.places[order]), *pending[order],
                      *pending[f"{device.name}/{order}"]]
            return is_killed(device.events[0][0], places, before.moment, request.moment, self.rebalances)

        excuses = judge_tellings(self.devices, record, ended, self.findings, is_repeated)
        judge_excuses(excuses["unheard"], len(self.devices), len(self.rebalances) // 2, self.findings)
        waits = judge_waits(self.devices, record, self.calm_moment, self.findings)
        for name, value in figures(excuses, waits):
            self.report.figure(f"faults.once_{name}", value)
        return excuses

    def judge_ends(self, verdicts):
        judge_ends(len(self.devices), verdicts, self.findings)
