"""
Breaks everything but the promise, and compares in the end; started by compose/bench chaos.

The part that knows orders is `waybill-dev chaos`: it publishes, lives as devices, measures recoveries and compares. This
part brings the stack up, does the faults, and tells what came out.
"""

import argparse
import collections
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from chaos_plan import Schedule, choose, median

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# librdkafka's own broker waits for nearly a session when a worker joins or leaves; below 4 s its first join breaks.
QUICK = "session.timeout.ms=6000\nheartbeat.interval.ms=500\n"
# How long before the end of the stream no fault begins any more.
CALM = 4


class Failure(Exception):
    """Why the run cannot go on, in a sentence."""


def say(text):
    print(f"chaos: {text}", file=sys.stderr, flush=True)


class Stack:
    """The stack's processes by name."""

    def __init__(self, folder):
        self.folder, self.env = folder, {}

    def run(self, *words, seconds=90):
        process = subprocess.Popen(
            [f"{ROOT}/compose/stack", *words, "--dir", self.folder], stdin=subprocess.DEVNULL, stdout=sys.stderr,
            start_new_session=True)
        try:
            return process.wait(seconds) == 0
        except BaseException:
            # SIGTERM, so that a stack that is coming up goes down again.
            process.terminate()
            process.wait()
            raise

    def up(self, options):
        properties = f"{self.folder}/kafka.properties"
        if "--kafka" not in options:
            with open(properties, "w") as file:
                file.write(QUICK)
            os.environ["WAYBILL_KAFKA_PROPERTIES"] = properties
        if not self.run("up", *options, seconds=1800):
            raise Failure("the stack does not come up")
        with open(f"{self.folder}/stack.env") as file:
            self.env = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)

    def services(self):
        with open(f"{self.folder}/run/services") as file:
            return file.read().split()

    def pid(self, service):
        try:
            with open(f"{self.folder}/run/{service}.pid") as file:
                return int(file.read())
        except (FileNotFoundError, ValueError):
            return None

    def runs(self, service):
        pid = self.pid(service)
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def signal(self, service, number):
        pid = self.pid(service)
        if pid and self.runs(service):
            os.kill(pid, number)

    def port(self, name):
        with open(f"{self.folder}/run/ports") as file:
            return int(dict(line.rstrip("\n").split("=") for line in file)[name])


class Tool:
    """`waybill-dev chaos`, and what it says."""

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
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def listen(self, seconds, until):
        """Takes lines until one is `until`, begins with it, or the time is over. Returns whether it came."""
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


class Chaos:
    def __init__(self, arguments, stack, tool, kinds):
        self.arguments, self.stack, self.tool, self.kinds = arguments, stack, tool, kinds
        self.schedule = Schedule(arguments.seed, kinds, arguments.workers)
        self.done, self.away, self.found = [], {}, []
        self.snapshot, self.name, self.marked = 0.0, "", ""

    # --- the run -------------------------------------------------------------------------------------------------------

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
            self.name = f"{fault.number}-{fault.kind.name}"
            self.do(fault)
            self.undo()
            self.done.append((self.name, fault.kind.name))
            if fault.waits:
                self.tool.listen(min(40, max(0.1, end - time.monotonic())), f"recovered {self.name}")
            self.tool.listen(max(0.0, min(fault.gap, end - time.monotonic())), None)
            self.bring_back(time.monotonic())
        self.calm()
        self.tool.listen(max(0.0, begin + seconds - time.monotonic()), None)
        say(f"{time.monotonic() - begin:5.0f} s: no more faults, waiting until all is at rest")
        self.tool.tell("end")
        if not self.tool.listen(900, "over"):
            raise Failure("waybill-dev chaos does not come to its end")
        self.tool.process.wait()

    def undo(self):
        """The fault is over from here on: what comes is recovery. Once for each fault."""
        if self.name and self.marked != self.name:
            self.marked = self.name
            self.tool.tell(f"mark {self.name}")

    def look_for_dead(self):
        """A service that ended by itself is a finding; somebody starts it again, as an orchestrator would."""
        for service in self.stack.services():
            if service not in self.away and not self.stack.runs(service):
                self.found.append(f"{service} ended by itself, see {self.stack.folder}/log/{service}.log")
                say(self.found[-1])
                self.start(service)

    def calm(self):
        self.bring_back(float("inf"))
        for service in self.stack.services():
            self.stack.signal(service, signal.SIGCONT)
            if not self.stack.runs(service):
                self.start(service)
        if "apns" in self.stack.services():
            self.admin("DELETE", "/faults")

    # --- faults --------------------------------------------------------------------------------------------------------

    def worker(self, base, number):
        """The nth worker that is there, counted round."""
        names = [name for name in self.stack.services() if name == base or name.startswith(base + "-")]
        there = [name for name in names if name not in self.away]
        return there[(number - 1) % len(there)]

    def target(self, fault):
        return " ".join(self.worker(service, fault.worker) for service in fault.kind.services)

    def do(self, fault):
        base, _, verb = fault.kind.name.partition("-")
        if base == "apns" and verb != "restart":
            return self.fail_apns(verb, fault)
        if base == "redis" and verb in ("empty", "older", "flush"):
            return getattr(self, f"{verb}_redis")(fault)
        if base == "all":
            return self.kill_all(fault)
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
        # All at once, as after the end of a machine.
        starts = [threading.Thread(target=self.start, args=(service,)) for service in services]
        for thread in starts:
            thread.start()
        for thread in starts:
            thread.join()

    def start(self, service):
        if not self.stack.run("start", service):
            self.found.append(f"{service} is not ready a minute after its start")

    def stop(self, service):
        begin = time.monotonic()
        self.stack.run("stop", service)
        # The services have 20 s by default, the stack kills after 30 s.
        if time.monotonic() - begin > 25:
            self.found.append(f"{service} did not end within 25 s of SIGTERM")

    def bring_back(self, now):
        for service, moment in list(self.away.items()):
            if moment <= now:
                del self.away[service]
                self.start(service)

    def fail_apns(self, verb, fault):
        number = fault.worker
        faults = {
            "errors": {"status": (503, 500, 429)[number % 3], "count": 5 * number, "reason": (
                "ServiceUnavailable", "InternalServerError", "TooManyRequests")[number % 3]},
            "goaway": {"goaway": {"reason": "Shutdown", "processed": number % 2 == 0}, "now": True},
            "cut": {"cut": True, "now": True} if number % 2 else {"cut": True, "count": 2},
            "silence": {"silence": True, "now": True} if number % 2 else {"silence": True, "count": 3},
        }
        self.admin("POST", "/faults", faults[verb])

    def admin(self, method, path, body=None):
        request = urllib.request.Request(
            self.stack.env["APNS_ADMIN_URL"] + path, method=method, data=json.dumps(body).encode() if body else None)
        try:
            with urllib.request.urlopen(request, timeout=10):
                pass
        except (urllib.error.URLError, OSError) as error:
            # A connection that is cut while nothing is open is no fault and none of ours.
            say(f"the simulator of APNs answers {error}")

    # --- Redis without its data ----------------------------------------------------------------------------------------

    def flush_redis(self, _):
        host, port = self.stack.env["REDIS_URL"].partition("://")[2].partition("/")[0].rpartition("@")[2].split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            answer = connection.recv(100)
        if not answer.startswith(b"+OK"):
            raise Failure(f"FLUSHALL: Redis answers {answer.decode(errors='replace').strip()}")

    def empty_redis(self, fault):
        self.replace_redis(fault, None)

    def older_redis(self, fault):
        self.replace_redis(fault, f"{self.stack.folder}/redis-older")
        self.snapshot = 0.0

    def replace_redis(self, fault, folder):
        self.stack.run("stop", "redis")
        shutil.rmtree(f"{self.stack.folder}/redis")
        if folder and os.path.isdir(folder):
            shutil.copytree(folder, f"{self.stack.folder}/redis")
        else:
            os.makedirs(f"{self.stack.folder}/redis")
        time.sleep(fault.hold)
        self.undo()
        self.start("redis")

    def keep_snapshot(self):
        """Keeps what Redis has on disk, for a server that comes back as it was a while ago."""
        if time.monotonic() - self.snapshot < 60 or not any(kind.name == "redis-older" for kind in self.kinds):
            return
        self.snapshot = time.monotonic()
        older = f"{self.stack.folder}/redis-older"
        shutil.rmtree(older, ignore_errors=True)
        # Redis may take a file away while it rewrites its log; then there is no snapshot this time.
        try:
            shutil.copytree(f"{self.stack.folder}/redis", older)
        except (shutil.Error, OSError):
            shutil.rmtree(older, ignore_errors=True)

    # --- what came out -------------------------------------------------------------------------------------------------

    def report(self):
        counts, differences = self.tool.counts, self.found + self.tool.differences
        kinds = collections.Counter(kind for _, kind in self.done)
        print(f"\nbehind the fault: all that was published is packaged, is pushed, and the gateway answers after"
              f"\n{'fault':18} {'times':>5} {'packaged':>22} {'pushed':>22} {'answered':>22}")
        waits = collections.defaultdict(list)
        for name, kind in self.done:
            if name in self.tool.recovered:
                waits[kind].append(self.tool.recovered[name])
        for kind in sorted(kinds):
            cells = []
            for place in range(3):
                values = [value[place] / 1000 for value in waits[kind] if value[place] >= 0]
                cells.append(f"{median(values):.1f} s, most {max(values):.1f} s" if values else "-")
            print(f"{kind:18} {kinds[kind]:5} " + " ".join(f"{cell:>22}" for cell in cells))
        print()
        for name in sorted(counts):
            print(f"{name:32} {counts[name]:8}")
        total = counts.get("differences", 0) + len(self.found)
        print(f"\n{total} differences, seed {self.arguments.seed}")
        for difference in differences[:40]:
            print(f"    {difference}")
        commits = [times[0] / 1000 for several in waits.values() for times in several if times[0] >= 0]
        print()
        figures = [
            ("faults", len(self.done)), ("changes", counts.get("changes", 0)), ("differences", total),
            ("wrong_401", sum(value for name, value in counts.items() if name.startswith("wrong_401."))),
            ("older_packages", counts.get("older_package.otherwise", 0)),
            ("lost_pushes", counts.get("lost_push", 0)),
            ("forgotten_changes", counts.get("forgotten_change", 0)),
            ("not_recovered", counts.get("not_recovered", 0)),
            ("recovery_s", round(median(commits) or 0, 2)), ("recovery_most_s", round(max(commits, default=0), 2)),
        ]
        for name, value in figures:
            print(f"BENCH chaos.{name} {value}")
        return total


def read_arguments():
    parser = argparse.ArgumentParser(prog="compose/bench chaos", description="Breaks everything, then compares.")
    parser.add_argument("--minutes", type=float, default=2, help="how long faults come (2)")
    parser.add_argument("--rate", type=int, default=40, help="changes a second (40)")
    parser.add_argument("--orders", help="a table of orders, CSV; without one they are made up")
    parser.add_argument("--devices", type=int, default=60, help="devices, each with up to three orders (60)")
    parser.add_argument("--workers", type=int, default=3, help="packagers, and as many pushers (3)")
    parser.add_argument("--seed", type=int, default=None, help="of all that is drawn by lot")
    parser.add_argument("--kafka", help="HOST:PORT; nothing of it is touched")
    parser.add_argument("--redis", help="URL; it is not restarted, and emptied only with --flush")
    parser.add_argument("--flush", action="store_true", help="FLUSHALL is allowed on the Redis of --redis")
    parser.add_argument("--no-loss", action="store_true", help="Redis never loses what it has")
    parser.add_argument("--only", action="append", default=[], help="only faults whose names begin so")
    parser.add_argument("--without", action="append", default=[], help="no faults whose names begin so")
    parser.add_argument("--keep", action="store_true", help="leaves logs and data in place also after success")
    arguments = parser.parse_args()
    if not 0.2 <= arguments.minutes <= 1440 or not 1 <= arguments.rate <= 100_000 or not 1 <= arguments.workers <= 20:
        parser.error("0.2 to 1440 minutes, 1 to 100000 changes a second, 1 to 20 workers")
    if arguments.seed is None:
        arguments.seed = int.from_bytes(os.urandom(3), "big")
    return arguments


def main():
    arguments = read_arguments()
    owned = {"apns"} | ({"redis", "flush"} if not arguments.redis else {"flush"} if arguments.flush else set())
    owned |= set() if arguments.kafka else {"kafka"}
    kinds = choose(owned, not arguments.no_loss, arguments.only, arguments.without)
    if not kinds:
        raise Failure("no fault is left to do")
    folder = tempfile.mkdtemp(prefix="waybill-chaos.")
    stack, tool, total, interrupted = Stack(folder), None, None, False

    def interrupt(*_):
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        options = ["--workers", str(arguments.workers)]
        options += ["--kafka", arguments.kafka] if arguments.kafka else []
        options += ["--redis", arguments.redis] if arguments.redis else []
        stack.up(options)
        say(f"seed {arguments.seed}, in {folder}")
        seconds = int(arguments.minutes * 60)
        programs = subprocess.run(
            ["swift", "build", "-c", "release", "--show-bin-path"], cwd=ROOT, check=True, text=True,
            stdout=subprocess.PIPE).stdout.strip()
        command = [
            f"{programs}/waybill-dev", "chaos", "--stack", f"{folder}/stack.env", "--seconds", str(seconds),
            "--rate", str(arguments.rate), "--seed", str(arguments.seed), "--devices", str(arguments.devices)]
        command += ["--orders", arguments.orders] if arguments.orders else []
        command += [] if arguments.kafka else ["--embedded"]
        with open(f"{folder}/log/chaos.log", "w") as log:
            tool = Tool(command, log)
            if not tool.listen(120, "started"):
                raise Failure("waybill-dev chaos does not start")
            chaos = Chaos(arguments, stack, tool, kinds)
            chaos.run(seconds)
            total = chaos.report()
        return 0 if total == 0 and tool.process.returncode == 0 else 1
    except KeyboardInterrupt:
        interrupted = True
        return 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if tool:
            tool.end()
        if os.path.exists(f"{folder}/run/services"):
            for service in stack.services():
                stack.signal(service, signal.SIGCONT)
            stack.run("down", seconds=600)
        if arguments.keep or (total != 0 and not interrupted):
            say(f"logs and data are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        say(str(failure))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
