"""A stack: the services that compose/stack starts and stops, the addresses that it writes, and its Redis."""

import contextlib
import functools
import hashlib
import hmac
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

ROOT = os.path.abspath(f"{os.path.dirname(__file__)}/../../..")

# Waybill's own services; there may be several of each, with a number.
SERVICES = ("packager", "pusher", "gateway")


class Failure(Exception):
    """The reason why a run cannot go on, as a sentence."""


def say(text):
    program = os.path.basename(sys.argv[0]).removesuffix(".py")
    print(f"{program}: {text}", file=sys.stderr, flush=True)


def catch_signals():
    """Makes SIGTERM an exception, as ^C is, so that everything that was started is stopped on the way out."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def ignore_signals():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def exit_code(main, *failures):
    """Returns the exit code of `main`, or reports its failure and returns 1. failures: further exceptions to report."""
    try:
        return int(main() or 0)
    except (Failure, OSError, subprocess.SubprocessError, *failures) as failure:
        say(str(failure))
        return 1
    except KeyboardInterrupt:
        return 130


@contextlib.contextmanager
def own_environment():
    """
    Keeps the variables that one subject sets for its services from those of the next.

    >>> before = dict(os.environ)
    >>> with own_environment():
    ...     os.environ["WAYBILL_KAFKA_PROPERTIES"] = "/of/a/stack/that/is/gone"
    ...     _ = os.environ.pop("PATH", None)
    >>> dict(os.environ) == before
    True
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def eventually(what, condition, seconds=60, pause=0.05, refusals=()):
    """
    Waits for a condition, and returns its first true value.

    what: the subject of the Failure's sentence, or a function that returns it. refusals: exceptions of the condition
    which mean that it is not true yet.
    """
    deadline, reason = time.monotonic() + seconds, ""
    while True:
        try:
            if value := condition():
                return value
        except refusals as refusal:
            reason = f": {refusal}"
        if time.monotonic() > deadline:
            raise Failure(f"{what() if callable(what) else what}: not within {seconds} s{reason}")
        time.sleep(pause)


def derived_token(secret, key):
    """Returns the token of an order, as packagers and checkouts derive it."""
    return hmac.new(secret.encode(), key.encode(), hashlib.sha256).hexdigest()[:32]


@functools.cache
def program(name):
    """Returns the path of a program, of the release build unless WAYBILL_TEST_PROGRAMS is another folder."""
    shown = subprocess.run(
        [f"{ROOT}/compose/prepare", "programs"], check=True, text=True, stdout=subprocess.PIPE)
    return f"{shown.stdout.strip()}/{name}"


def run_tool(*words):
    """Runs `waybill-dev`, and discards its output."""
    subprocess.run([program("waybill-dev"), *words], check=True, stdout=subprocess.DEVNULL)


class Stack:
    def __init__(self, folder):
        self.folder, self.env = folder, {}
        if os.path.exists(f"{folder}/stack.env"):
            self.read_addresses()

    def read_addresses(self):
        lines = Path(f"{self.folder}/stack.env").read_text().splitlines()
        self.env = dict(line.split("=", 1) for line in lines if "=" in line)
        self.type = self.env["ORDER_TYPE"]
        self.gateway_port = urllib.parse.urlsplit(self.env["GATEWAY_URL"]).port

    def set_address(self, name, value):
        """Changes a line of stack.env, and reads the file again."""
        file = Path(f"{self.folder}/stack.env")
        file.write_text(file.read_text().replace(f"{name}={self.env[name]}\n", f"{name}={value}\n"))
        self.read_addresses()

    @property
    def brand(self):
        """The folder of the stack's own brand."""
        return f"{self.env['BRANDS']}/{self.type}"

    @property
    def redis_port(self):
        return urllib.parse.urlsplit(self.env["REDIS_URL"]).port

    @functools.cached_property
    def redis(self):
        return Redis(self.env["REDIS_URL"])

    # --- processes ---------------------------------------------------------------------------------------------------

    def up(self, *options, kafka_properties=""):
        if kafka_properties:
            os.environ["WAYBILL_KAFKA_PROPERTIES"] = file = f"{self.folder}/kafka.properties"
            Path(file).write_text(kafka_properties)
        self.run("up", *options, seconds=1800)
        self.read_addresses()

    def down(self):
        if os.path.exists(f"{self.folder}/run/services"):
            for service in self.services():
                self.signal(service, signal.SIGCONT)
            self.run("down", seconds=600)

    def start(self, *services):
        for service in services:
            self.run("start", service)
            if service == "redis":
                # The connection to the former process has ended.
                self.__dict__.pop("redis", None)

    def stop(self, *services):
        for service in services:
            self.run("stop", service)

    def restart(self, service):
        self.stop(service)
        self.start(service)

    def run(self, *words, seconds=120):
        """Runs compose/stack in its own session, which ^C does not reach."""
        process = subprocess.Popen(
            [f"{ROOT}/compose/stack", *words, "--dir", self.folder], stdin=subprocess.DEVNULL, stdout=sys.stderr,
            start_new_session=True)
        try:
            status = process.wait(seconds)
        except BaseException:
            # SIGTERM, so that a stack that is coming up is brought down again.
            process.terminate()
            process.wait()
            raise
        if status != 0:
            raise Failure(f"compose/stack {' '.join(words)} failed, see {self.folder}/log")

    def services(self):
        return Path(f"{self.folder}/run/services").read_text().split()

    def pid(self, service):
        return int(Path(f"{self.folder}/run/{service}.pid").read_text())

    def pids(self, *services):
        """Returns the process of each service, as Usage needs them."""
        return {service: [self.pid(service)] for service in services}

    def is_running(self, service):
        try:
            return Path(f"/proc/{self.pid(service)}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return False

    def signal(self, service, number):
        if self.is_running(service):
            os.kill(self.pid(service), number)

    def take_leaders(self, topic, partitions):
        """Takes the leaders from these partitions of the embedded broker, and gives them back to all others."""
        log, answer = Path(f"{self.folder}/log/kafka.log"), f"leaderless {len(partitions)}"
        Path(f"{self.folder}/run/kafka.leaderless").write_text("".join(f"{topic}/{one}\n" for one in partitions))
        answers = log.read_text().splitlines().count(answer)
        self.signal("kafka", signal.SIGHUP)
        eventually("the broker's leaders", lambda: log.read_text().splitlines().count(answer) > answers, 10)

    def command(self, service):
        """Returns the shell command that starts a service."""
        return Path(f"{self.folder}/run/{service}.command").read_text().rstrip("\n")

    def run_program(self, service, words):
        """Runs a subcommand of a service's program with the service's settings. Returns its output."""
        process = subprocess.run(
            ["bash", "-c", f"{self.command(service)} {words}"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if process.returncode:
            raise Failure(f"{words}: exit code {process.returncode}: {process.stdout[-800:]}")
        return process.stdout

    def edit_command(self, service, old, new):
        """Changes the command that starts a service."""
        command = self.command(service)
        if old not in command:
            raise Failure(f"the command of {service} does not contain '{old}'")
        self.write_command(service, command.replace(old, new, 1))

    def write_command(self, service, command):
        Path(f"{self.folder}/run/{service}.command").write_text(f"{command}\n")

    # --- orders ------------------------------------------------------------------------------------------------------

    def path(self, order):
        return f"/v1/orders/{self.type}/{order}"

    def order_key(self, order):
        """The key of an order in Redis."""
        return f"waybill:1:order:{{{self.type}/{order}}}"

    def secret(self):
        """The secret from which tokens are derived: the first one."""
        return Path(self.env["TOKEN_SECRETS"]).read_text().split()[0]

    def add_brand(self, order_type):
        """Creates another brand, and returns its folder."""
        certificates, brand = f"{self.folder}/certificates-{order_type}", f"{self.env['BRANDS']}/{order_type}"
        authority = os.path.dirname(self.env["ROOT_CA"])
        run_tool("certificates", "--out", certificates, "--order-type", order_type, "--authority", authority)
        run_tool("brand", "--out", brand, "--order-type", order_type, "--certificates", certificates)
        return brand


class Redis:
    """A minimal client of Redis."""

    def __init__(self, url):
        place = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((place.hostname, place.port), timeout=10)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        self.send(*words)
        return self.reply()

    def ask_all(self, commands):
        """Returns the replies to many commands, which are pipelined 500 at a time."""
        commands, replies = list(commands), []
        for start in range(0, len(commands), 500):
            some = commands[start:start + 500]
            for words in some:
                self.send(*words)
            replies += [self.reply() for _ in some]
        return replies

    def send(self, *words):
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
        self.socket.sendall((f"*{len(words)}\r\n" + "".join(parts)).encode())

    def reply(self):
        """Returns the next reply. Bytes of a string that are not UTF-8 are decoded with `surrogateescape`."""
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode(errors="surrogateescape")
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            raise Failure(f"Redis answers {rest.decode()}")
        return rest.decode()

    def used_memory(self):
        """Returns the bytes that Redis has allocated, once they change by less than 64 KiB in half a second."""
        last = -1
        while True:
            memory = self.ask("INFO", "memory")
            used = int(next(line for line in memory.splitlines() if line.startswith("used_memory:")).split(":")[1])
            if abs(used - last) < 64 << 10:
                return used
            last = used
            time.sleep(0.5)
