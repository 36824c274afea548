"""Processes: those that a benchmark starts, and the processor time and memory that any of them uses."""

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import time
from pathlib import Path

from stack import Failure, eventually, program

TICKS = os.sysconf("SC_CLK_TCK")
# Stands for the processes that have ended and were waited for.
ENDED = "ended"


class Program:
    """
    A child process in a session of its own, like a stack's services: the kernel may share processors by session.

    words: the program and its arguments; log: a file that its output is added to.
    """

    def __init__(self, words, log, environment=None):
        self.log = log
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                words, env=os.environ | (environment or {}), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def require_running(self):
        if self.process.poll() is not None:
            raise Failure(f"{self.process.args[0]} ended: {self.last_words()}")

    def await_ready(self, is_ready, seconds=10):
        def is_up():
            self.require_running()
            return is_ready()

        try:
            eventually(lambda: f"starting {self.process.args[0]}, which says: {self.last_words()}", is_up, seconds)
        except BaseException:
            self.stop()
            raise
        return self

    def last_words(self):
        return Path(self.log).read_bytes()[-600:].decode(errors="replace").strip()

    def stop(self, within=30):
        """Ends it; kills it if it is still there after so many seconds."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(within)
        self.process.kill()
        self.process.wait()


def server(name):
    """The path of a server's program, also where only the administrator's search path leads."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")


def start_broker(folder, name, topics):
    """Starts an embedded broker with these topics, numbers of partitions by names. Returns it and its address."""
    words = [word for topic, partitions in topics.items() for word in ("--topic", f"{topic}:{partitions}")]
    return start_with_address(folder, name, ["kafka", "--port", str(free_ports(1)[0]), *words])


def start_with_address(folder, name, words):
    """Starts a server of waybill-dev that writes its address to a file. Returns it and what it wrote."""
    file = f"{folder}/{name}.address"
    # Of an earlier run in this folder.
    Path(file).unlink(missing_ok=True)
    started = Program([program("waybill-dev"), *words, "--address-file", file], f"{folder}/{name}.log")
    started.await_ready(lambda: os.path.exists(file), 20)
    return started, Path(file).read_text().strip()


def output_of(words, given=None, seconds=180):
    """The standard output of a program that ends by itself, without an error."""
    ran = subprocess.run(
        words, input=given, capture_output=True, text=True, timeout=seconds, start_new_session=True)
    if ran.returncode:
        raise Failure(f"{os.path.basename(words[0])} says: {(ran.stderr or ran.stdout).strip()[-500:]}")
    return ran.stdout


def free_ports(count):
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


# --- what processes use ----------------------------------------------------------------------------------------------


class Usage:
    """Processor time from now on, by name. who: process ids by name, or ENDED instead of ids."""

    def __init__(self, who):
        self.who, self.before = who, {name: cpu_seconds(pids) for name, pids in who.items()}
        self.machine, self.began = machine_seconds(), time.monotonic()

    def end(self):
        """Sets `wall`, and `used` in seconds; `others` used the rest of what the machine did."""
        self.wall = time.monotonic() - self.began
        self.used = {name: cpu_seconds(pids) - self.before[name] for name, pids in self.who.items()}
        worked = machine_seconds() - self.machine
        self.used["others"] = max(0, worked - sum(self.used.values()))
        self.idle = max(0, self.wall * (os.cpu_count() or 1) - worked)
        return self

    def shares(self):
        """Seconds per second."""
        return {name: seconds / self.wall for name, seconds in self.used.items()}


def cpu_seconds(pids):
    """Seconds that processes have used so far, in their own code and in the kernel for them."""
    if pids == ENDED:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def machine_seconds():
    """Seconds that all processors of the machine have worked so far."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def memory_mb(pid, field="VmRSS"):
    """Megabytes that are resident; field VmHWM: the most that ever were."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024
