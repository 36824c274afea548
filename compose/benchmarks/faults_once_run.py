"""A faults run in which each device has exactly one change: see faults_once.py for its rules."""

import threading

from devices import Device, now
from faults_judge import judge_tellings
from faults_once import figures, is_killed, judge_ends, judge_excuses, judge_waits
from faults_run import CALM, FaultsBench
from faults_stage import TYPES
from stack import Failure, say
from topics import Offsets


class OnceFaultsBench(FaultsBench):
    """As many orders as devices, and as many changes; several workers, which may be killed."""

    rules = FaultsBench.rules + ("late", "excuses", "ends")

    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        self.todo = sorted(self.by_order)
        self.lot.shuffle(self.todo)
        self.calm_moment, self.killer, self.is_over = 0, None, threading.Event()

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
        self.pending = self.offsets.places_by_key(Offsets.PENDING)
        super().judge(verdicts)

    def judge_tellings(self, record, ended):
        excuses = judge_tellings(self.devices, record, ended, self.findings, self.is_killed)
        judge_excuses(excuses["unheard"], len(self.devices), len(self.rebalances) // 2, self.findings)
        waits = judge_waits(self.devices, record, self.calm_moment, self.findings)
        for name, value in figures(excuses, waits):
            self.report.figure(f"faults.once_{name}", value)
        return excuses

    def is_killed(self, device, before, request):
        order = device.orders[0]
        places = [("waybill.orders", *self.changes.places[order]), *self.pending[order],
                  *self.pending[f"{device.name}/{order}"]]
        return is_killed(device.events[0][0], places, before.moment, request.moment, self.rebalances)

    def judge_ends(self, verdicts):
        judge_ends(len(self.devices), verdicts, self.findings)
