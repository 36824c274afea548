"""Parts of journeys: devices that ask as Wallet does, additional services, and findings."""

import collections
import io
import json
import re
import threading
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import devices
from client import Connection, showing
from metrics import Metrics
from orders import example
from processes import free_ports
from simulator import Simulator
from stack import Failure, eventually, say
from topics import Publisher

# What nginx needs to run beside others, without root.
NGINX_FOLDERS = """
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;"""

# The most differences that are printed; others are only counted.
SHOWN = 20


class Unanswered(Exception):
    """A request without an answer: the service is not running, or ended meanwhile."""


class Findings:
    """The differences found, with the phase of the journey, and the counts of comparisons. Threads: any."""

    def __init__(self):
        self.lock, self.count, self.counts, self.phase = threading.Lock(), 0, collections.Counter(), ""

    def add(self, text):
        with self.lock:
            self.count += 1
            if self.count <= SHOWN:
                say(f"DIFFERENCE: {self.phase}{': ' if self.phase else ''}{text}")

    def saw(self, what, number=1):
        with self.lock:
            self.counts[what] += number

    def close(self):
        """Prints all counts, and returns the exit code."""
        for what, number in sorted(self.counts.items()):
            print(f"{what:44} {number}")
        print(f"{'differences':44} {self.count}", flush=True)
        return 1 if self.count else 0


class Client:
    """A connection that is opened again after it ended. For one thread."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def ask(self, method, path, headers=(), body=None):
        try:
            if self.connection is None:
                self.connection = self.connect()
            self.connection.send(path, headers, method, body)
            answer = self.connection.receive()
            if answer.headers.get("connection", "").lower() == "close":
                self.close()
            return answer
        except (OSError, ValueError) as error:
            self.close()
            raise Unanswered(str(error)) from error

    def connect(self):
        return Connection(self.port)

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


class Device(devices.Device):
    """A device with one order, one request at a time.

    token: the one that it shows to the gateway. order: order.json of the newest package that it has.
    """

    def __init__(self, number, key, token=None):
        super().__init__(number, [key])
        self.key, self.token = key, token
        self.order, self.modified, self.born = None, None, time.monotonic()
        # Allows one request of a device at a time.
        self.lock = threading.Lock()

    @property
    def identifier(self):
        """The order's identifier, without its type."""
        return self.key.split("/")[1]

    def fetch(self, client, is_conditional=False):
        """Returns the status; if it is 200, the device keeps the version."""
        headers = showing(self.token)
        if is_conditional and self.modified:
            headers.append(("if-modified-since", self.modified))
        answer = client.ask("GET", f"/v1/orders/{self.key}", headers)
        if answer.status == 200:
            self.order = json.loads(zipfile.ZipFile(io.BytesIO(answer.body)).read("order.json"))
            self.modified = answer.headers["last-modified"]
        return answer.status

    def _registration(self, client, method, body=None):
        path = f"/v1/devices/{self.name}/registrations/{self.key}"
        return client.ask(method, path, showing(self.token), body).status

    def register(self, client):
        return self._registration(client, "POST", json.dumps({"pushToken": self.push_token}))

    def unregister(self, client):
        return self._registration(client, "DELETE")

    def list(self, client):
        """Returns the identifiers of all its orders; None if the answer is neither 200 nor 204."""
        answer = client.ask("GET", f"/v1/devices/{self.name}/registrations/{self.key.split('/')[0]}")
        if answer.status == 204:
            return []
        return json.loads(answer.body)["orderIdentifiers"] if answer.status == 200 else None


class World:
    """The stack of a journey, its publisher, its APNs simulator, and its findings."""

    # Of each kind, on a stack with the embedded broker.
    WORKERS = 1

    @classmethod
    def environment(cls):
        """Starts what the stack is given, and returns its variables. Called before the stack is brought up."""
        return {}

    def __init__(self, arguments, stack):
        self.arguments, self.stack, self.findings = arguments, stack, Findings()
        self.publisher = Publisher(self.stack, {"partitioner": "murmur2_random"})
        self.document, self.secret, self.type = example(), self.stack.secret(), self.stack.type
        self.simulator = Simulator(self.stack.env["APNS_ADMIN_URL"])
        # For the main thread only.
        self.client = Client(self.stack.gateway_port)

    def run(self):
        """Runs the journey, and returns the exit code."""
        self.travel()
        status = self.findings.close()
        self.simulator.close()
        return status

    def add_service(self, name, command):
        """Adds a service to the stack, with the command that starts it, and starts it."""
        port = free_ports(1)[0]
        self.stack.write_command(name, re.sub(
            r"WAYBILL_OPERATIONS_LISTEN=\S+", f"WAYBILL_OPERATIONS_LISTEN=127.0.0.1:{port}", command))
        for file, text in (("ports", f"{name}={port}"), ("services", name)):
            with open(f"{self.stack.folder}/run/{file}", "a") as opened:
                opened.write(f"{text}\n")
        self.stack.start(name)

    def operations_port(self, service):
        lines = Path(f"{self.stack.folder}/run/ports").read_text().split()
        return int(dict(line.split("=") for line in lines)[service])

    def probe(self, service, path):
        """Returns the status and the text of a probe: `livez` or `readyz`."""
        try:
            with urllib.request.urlopen(
                    f"http://127.0.0.1:{self.operations_port(service)}/{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def log(self, service):
        return Path(f"{self.stack.folder}/log/{service}.log").read_text()

    def metric(self, name):
        """Returns a metric of the first packager, summed over all labels."""
        return Metrics.of(self.stack.env["OPERATIONS_PACKAGER"]).total(name)

    def untold(self, devices, first, seconds):
        """Returns the devices that got no accepted notification from delivery `first` on, within some seconds."""
        left = {device.push_token: device for device in devices}

        def are_told():
            for delivery in self.simulator.deliveries[first:]:
                if delivery.status == 200:
                    left.pop(delivery.token, None)
            return not left

        try:
            eventually("telling", are_told, seconds)
        except Failure:
            pass
        return list(left.values())
