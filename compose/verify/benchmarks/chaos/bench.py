"""
Breaks the services and everything around them, then compares the results.

`waybill-dev chaos` is the part that knows orders: it publishes, simulates devices, measures recoveries and compares.
This part injects the faults and prints the report.
"""

import collections
import contextlib
import os
import queue
import random
import secrets
import shutil
import signal
import subprocess
import threading
import time

from chaos import anew, region
from chaos.plan import choose, schedule
from operations import GROWING, grow_partitions, partitions_added, rekey, retoken, swap_secrets, write_secrets
from report import percentile
from simulator import tell
from stack import Failure, Redis, eventually, program, say
from subject import QUICK_METADATA, QUICK_SESSIONS, Bench
from topics import ORDERS, Reader

# The last seconds of the stream, in which no fault begins.
CALM = 4
# Partitions that each growth adds to a topic.
MORE_PARTITIONS = 4


class Tool:
    """`waybill-dev chaos`, and the lines that it prints."""

    def __init__(self, command, log):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, start_new_session=True)
        self.lines, self.recovered, self.counts, self.differences = queue.Queue(), {}, {}, []
        self.log = log
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.log.write(line)
            self.log.flush()
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def tell(self, line):
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def listen(self, seconds, until):
        """
        Processes lines until one begins with the words `until`, or the time is over.

        until: "over" is the end of the output, None nothing.
        - Returns: true if it came.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return False
            if line is None:
                self.lines.put(None)
                return until == "over"
            kind, _, rest = line.partition(" ")
            if kind == "recovered":
                name, *times = rest.split()
                self.recovered[name] = [int(time) for time in times]
            elif kind == "count":
                name, number = rest.rsplit(" ", 1)
                self.counts[name] = int(number)
            elif kind == "difference":
                self.differences.append(rest)
            if until and (line == until or line.startswith(until + " ")):
                return True

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class ChaosBench(Bench):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        owned = {"apns"} | (set() if arguments.kafka else {"kafka"})
        owned |= {"partitions"} if arguments.grow_partitions else set()
        owned |= {"topic"} if arguments.topic_anew else set()
        owned |= {"redis", "flush"} if not arguments.redis else {"flush"} if arguments.flush else set()
        self.kinds = choose(owned, not arguments.no_loss, arguments.only, arguments.without)
        if not self.kinds:
            raise Failure("the options leave no kind of fault")
        if arguments.grow_partitions and not arguments.kafka:
            raise Failure("--grow-partitions needs --kafka: the topics of the embedded broker cannot grow")
        if arguments.topic_anew and not arguments.kafka:
            raise Failure("--topic-anew needs --kafka: the embedded broker deletes no topic")
        self.schedule = schedule(arguments.seed, self.kinds, arguments.workers)
        self.done, self.away, self.found = [], {}, []
        # unmarked: the name of the fault in progress, empty once it is marked as over.
        self.snapshot, self.unmarked = 0.0, ""

    def set_up(self):
        arguments = self.arguments
        options = ["--workers", str(arguments.workers)]
        options += ["--kafka", arguments.kafka] if arguments.kafka else []
        options += ["--redis", arguments.redis] if arguments.redis else []
        write_secrets(f"{self.stack.folder}/token-secrets", [secrets.token_hex(32) for _ in range(2)])
        os.environ["WAYBILL_BRANDS_RELOAD_SECONDS"] = "1"
        self.stack.up(*options, kafka_properties=QUICK_METADATA if arguments.kafka else QUICK_SESSIONS)
        say(f"seed {arguments.seed}, in {self.stack.folder}")

    def measure(self):
        arguments, seconds = self.arguments, int(self.arguments.minutes * 60)
        command = [
            program("waybill-dev"), "chaos", "--stack", f"{self.stack.folder}/stack.env", "--seconds", str(seconds),
            "--rate", str(arguments.rate), "--seed", str(arguments.seed), "--devices", str(arguments.devices)]
        command += ["--orders", arguments.orders] if arguments.orders else []
        command += [] if arguments.kafka else ["--embedded"]
        with open(f"{self.stack.folder}/log/chaos.log", "w") as log:
            self.tool = Tool(command, log)
            self.ending.callback(self.tool.end)
            if not self.tool.listen(120, "started"):
                raise Failure("waybill-dev chaos does not start")
            self.run(seconds)
        return self.tell() > 0 or self.tool.process.returncode != 0

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self, seconds):
        begin = time.monotonic()
        end = begin + seconds - CALM
        self.tool.listen(2, None)
        for fault in self.schedule:
            self.keep_snapshot()
            self.look_for_dead()
            left = end - time.monotonic()
            if left < fault.hold + 1:
                if left < 3:
                    break
                continue
            if self.tool.process.poll() is not None:
                raise Failure("waybill-dev chaos ended before the faults did")
            say(f"{time.monotonic() - begin:5.0f} s: {fault.kind.name} {self.target(fault)} for {fault.hold} s")
            name = self.unmarked = f"{fault.number}-{fault.kind.name}"
            self.do(fault)
            self.undo()
            self.done.append((name, fault.kind.name))
            if fault.waits:
                self.tool.listen(min(40, max(0.1, end - time.monotonic())), f"recovered {name}")
            self.tool.listen(max(0.0, min(fault.gap, end - time.monotonic())), None)
            self.bring_back(time.monotonic())
        self.calm()
        self.tool.listen(max(0.0, begin + seconds - time.monotonic()), None)
        say(f"{time.monotonic() - begin:5.0f} s: no more faults, waiting until everything is processed")
        self.tool.tell("end")
        if not self.tool.listen(900, "over"):
            raise Failure("waybill-dev chaos does not end")
        self.tool.process.wait()

    def undo(self):
        """Marks the current fault as over: the recovery begins. Only the first call for a fault has an effect."""
        if self.unmarked:
            self.tool.tell(f"mark {self.unmarked}")
            self.unmarked = ""

    def look_for_dead(self):
        """Records each service that ended unexpectedly, and starts it again, as an orchestrator would."""
        for service in self.stack.services():
            if service not in self.away and not self.stack.is_running(service):
                self.found.append(f"{service} ended unexpectedly, see {self.stack.folder}/log/{service}.log")
                say(self.found[-1])
                self.start(service)

    def calm(self):
        self.bring_back(float("inf"))
        for service in self.stack.services():
            self.stack.signal(service, signal.SIGCONT)
            if not self.stack.is_running(service):
                self.start(service)
        if "apns" in self.stack.services():
            self.tell_simulator("DELETE")

    # --- faults -------------------------------------------------------------------------------------------------------

    def worker(self, base, number):
        """Returns the nth worker of those that are not away, counting in a circle."""
        names = [name for name in self.stack.services() if name == base or name.startswith(base + "-")]
        there = [name for name in names if name not in self.away]
        return there[(number - 1) % len(there)]

    def target(self, fault):
        return " ".join(self.worker(service, fault.worker) for service in fault.kind.services)

    def do(self, fault):
        base, _, verb = fault.kind.name.partition("-")
        if base == "apns" and verb != "restart":
            return self.fail_apns(verb, fault)
        if fault.kind.name == "redis-flush":
            # On a new connection, since Redis may have been restarted.
            return Redis(self.stack.env["REDIS_URL"]).ask("FLUSHALL")
        if base == "redis" and verb in ("empty", "older"):
            return self.replace_redis(fault, verb == "older")
        if base == "forget":
            return self.tool.tell(f"forget {1 + fault.number % 8}")
        if base == "all":
            return self.kill_all(fault)
        if base == "secrets":
            return self.change_secrets(verb)
        if base == "partitions":
            return self.grow_partitions()
        if base == "region":
            return region.move(self, fault)
        if base == "topic":
            return anew.make(self)
        if base == "leaders":
            return self.take_leaders(fault)
        service = self.worker(base, fault.worker)
        if verb == "stall":
            self.stack.signal(service, signal.SIGSTOP)
            time.sleep(fault.hold)
            self.undo()
            return self.stack.signal(service, signal.SIGCONT)
        if verb == "leave":
            if len([name for name in self.stack.services() if name.startswith(base) and name not in self.away]) > 1:
                self.stop(service)
                self.away[service] = time.monotonic() + fault.hold
            return None
        if verb == "kill":
            self.stack.run("kill", service)
        else:
            self.stop(service)
        time.sleep(fault.hold)
        self.undo()
        return self.start(service)

    def kill_all(self, fault):
        services = [
            service for service in self.stack.services()
            if service.partition("-")[0] in fault.kind.services and service not in self.away]
        for service in services:
            self.stack.run("kill", service)
        time.sleep(fault.hold)
        self.undo()
        # Concurrently, as when a machine starts again.
        region.at_once(self.start, services)

    def start(self, service):
        try:
            self.stack.start(service)
        except Failure:
            self.found.append(f"{service} is not ready within a minute of its start")

    def stop(self, service):
        begin = time.monotonic()
        self.stack.stop(service)
        # The services take at most 20 s by default, and the stack kills them after 30 s.
        if time.monotonic() - begin > 25:
            self.found.append(f"{service} did not end within 25 s of SIGTERM")

    def bring_back(self, now):
        for service, moment in list(self.away.items()):
            if moment <= now:
                del self.away[service]
                self.start(service)

    def take_leaders(self, fault):
        lot = random.Random(f"{self.arguments.seed} {fault.number}")
        reader = Reader(self.stack.env["KAFKA_BOOTSTRAP"])
        partitions = sorted(place.partition for place in reader.places(ORDERS))
        reader.close()
        self.stack.take_leaders(ORDERS, lot.sample(partitions, min(len(partitions), lot.randint(1, 8))))
        time.sleep(fault.hold)
        self.undo()
        self.stack.take_leaders(ORDERS, [])

    def change_secrets(self, verb):
        """Makes another secret the one that mints; `retoken` also gives all orders tokens of it."""
        swap_secrets(self.stack)
        if verb == "retoken":
            self.operate(lambda: retoken(self.stack))

    def grow_partitions(self):
        self.bring_back(float("inf"))
        grow_partitions(self.stack, GROWING, MORE_PARTITIONS)
        # A producer that has not yet learned of them writes to an old partition: the second run moves that key.
        self.operate(lambda: rekey(self.stack)[1] == 0)
        self.operate(lambda: rekey(self.stack)[1] == 0)
        eventually("the packager notices that all keys are moved", lambda: partitions_added(self.stack) == 0, 90)

    @staticmethod
    def operate(command):
        """Repeats a command until it succeeds: it is refused while Redis is being restored."""
        eventually("an operator's command", lambda: command() is not False, 120, 1, Failure)

    def fail_apns(self, verb, fault):
        number = fault.worker
        faults = {
            "errors": {"status": (503, 500, 429)[number % 3], "count": 5 * number, "reason": (
                "ServiceUnavailable", "InternalServerError", "TooManyRequests")[number % 3]},
            "goaway": {"goaway": {"reason": "Shutdown", "processed": number % 2 == 0}, "now": True},
            "cut": {"cut": True, "now": True} if number % 2 else {"cut": True, "count": 2},
            "silence": {"silence": True, "now": True} if number % 2 else {"silence": True, "count": 3},
        }
        self.tell_simulator("POST", faults[verb])

    def tell_simulator(self, method, fault=None):
        try:
            tell(self.stack.env["APNS_ADMIN_URL"], "/faults", method, fault)
        except (Failure, OSError) as error:
            # The run continues without this fault: too many are set, or the simulator is down.
            say(f"a request to the APNs simulator failed: {error}")

    # --- Redis without its data ---------------------------------------------------------------------------------------

    def replace_redis(self, fault, is_older):
        """Restarts Redis without data, or with its snapshot if there is one."""
        data, older = f"{self.stack.folder}/redis", f"{self.stack.folder}/redis-older"
        self.stack.stop("redis")
        shutil.rmtree(data)
        if is_older and os.path.isdir(older):
            shutil.copytree(older, data)
            self.snapshot = 0.0
        else:
            os.makedirs(data)
        time.sleep(fault.hold)
        self.undo()
        self.start("redis")

    def keep_snapshot(self):
        """Copies the data that Redis has on disk, at most once a minute, for the fault redis-older."""
        if time.monotonic() - self.snapshot < 60 or not any(kind.name == "redis-older" for kind in self.kinds):
            return
        self.snapshot = time.monotonic()
        older = f"{self.stack.folder}/redis-older"
        shutil.rmtree(older, ignore_errors=True)
        # Redis may delete a file while it rewrites its log; then there is no snapshot until the next attempt.
        try:
            shutil.copytree(f"{self.stack.folder}/redis", older)
        except (shutil.Error, OSError):
            shutil.rmtree(older, ignore_errors=True)

    # --- report -------------------------------------------------------------------------------------------------------

    def tell(self):
        """Returns the number of differences."""
        counts, differences = self.tool.counts, self.found + self.tool.differences
        kinds = collections.Counter(kind for _, kind in self.done)
        print("\nafter the end of the fault: all that was published is packaged, is pushed, the gateway answers after"
              f"\n{'fault':18} {'times':>5} {'packaged':>22} {'pushed':>22} {'answered':>22}")
        waits = collections.defaultdict(list)
        for name, kind in self.done:
            if name in self.tool.recovered:
                waits[kind].append(self.tool.recovered[name])
        for kind in sorted(kinds):
            cells = []
            for place in range(3):
                values = [value[place] / 1000 for value in waits[kind] if value[place] >= 0]
                cells.append(f"{percentile(values, 0.5):.1f} s, most {max(values):.1f} s" if values else "-")
            print(f"{kind:18} {kinds[kind]:5} " + " ".join(f"{cell:>22}" for cell in cells))
        print()
        for name in sorted(counts):
            print(f"{name:32} {counts[name]:8}")
        total = counts.get("differences", 0) + len(self.found)
        print(f"\n{total} differences, seed {self.arguments.seed}")
        for difference in differences[:40]:
            print(f"    {difference}")
        commits = [times[0] / 1000 for several in waits.values() for times in several if times[0] >= 0] or [0]
        figures = {
            "faults": len(self.done), "changes": counts.get("changes", 0), "differences": total,
            "wrong_401": sum(value for name, value in counts.items() if name.startswith("wrong_401.")),
            "older_packages": counts.get("older_package.otherwise", 0), "lost_pushes": counts.get("lost_push", 0),
            "forgotten_changes": counts.get("forgotten_change", 0), "not_recovered": counts.get("not_recovered", 0),
            "recovery_s": percentile(commits, 0.5), "recovery_most_s": max(commits),
        }
        for name, value in figures.items():
            self.report.figure(f"chaos.{name}", value)
        return total
