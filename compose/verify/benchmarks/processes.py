"""Processes that a benchmark starts, and the processor time and memory that any process uses."""

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
# Stands for child processes that have ended and were waited for.
ENDED = "ended"


class Program:
    """
    A child process in its own session, like a stack's services: the kernel may share processors by session.

    words: the program and its arguments; log: the file to which its output is appended.
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
        """Terminates the process; kills it if it has not ended within this many seconds."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(within)
        self.process.kill()
        self.process.wait()


def server(name):
    """Returns the path of a server's program, which may be in /usr/sbin, outside the search path."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")


def start_broker(folder, name, topics):
    """Starts an embedded broker. topics: numbers of partitions by name. Returns the broker and its address."""
    words = [word for topic, partitions in topics.items() for word in ("--topic", f"{topic}:{partitions}")]
    return start_with_address(folder, name, ["kafka", "--port", str(free_ports(1)[0]), *words])


def start_with_address(folder, name, words):
    """Starts a server of waybill-dev that writes its address to a file. Returns the server and the address."""
    file = f"{folder}/{name}.address"
    # It may remain from an earlier run in this folder.
    Path(file).unlink(missing_ok=True)
    started = Program([program("waybill-dev"), *words, "--address-file", file], f"{folder}/{name}.log")
    started.await_ready(lambda: os.path.exists(file), 20)
    return started, Path(file).read_text().strip()


def output_of(words, given=None, seconds=180):
    """Runs a program to its end, and returns its standard output. Fails if its exit code is not 0."""
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
    """Processor time by name, starting now. who: process ids by name, or ENDED instead of ids."""

    def __init__(self, who):
        self.who, self.before = who, {name: cpu_seconds(pids) for name, pids in who.items()}
        self.machine, self.began = machine_seconds(), time.monotonic()

    def end(self):
        """Sets `wall`, `idle`, and `used` by name, in seconds; `others` is the rest that the machine worked."""
        self.wall = time.monotonic() - self.began
        self.used = {name: cpu_seconds(pids) - self.before[name] for name, pids in self.who.items()}
        worked = machine_seconds() - self.machine
        self.used["others"] = max(0, worked - sum(self.used.values()))
        self.idle = max(0, self.wall * (os.cpu_count() or 1) - worked)
        return self

    def shares(self):
        """Returns the used seconds per second, by name."""
        return {name: seconds / self.wall for name, seconds in self.used.items()}


def cpu_seconds(pids):
    """Returns the seconds that processes and their children have used so far, in user code and in the kernel."""
    if pids == ENDED:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            # Its own, and those of children that have ended.
            total += sum(map(int, fields[11:15])) / TICKS + cpu_seconds(children(pid))
    return total


def children(pid):
    """Returns the processes that a process has started and that have not ended."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def machine_seconds():
    """Returns the seconds that all processors of the machine have worked so far, those stolen by its host included."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def memory_mb(pid, field="VmRSS"):
    """Returns the resident memory in MiB, or with VmHWM the highest that it ever was."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024
