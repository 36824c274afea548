"""
Two gateways behind a proxy are restarted in turn, while clients fetch an order and send messages of devices.

A gateway that is told to stop says so to the proxy's health checks and still takes connections, so no client notices.
Half of the clients speak HTTP/1.1, half HTTP/2 with many requests at a time on a connection.
"""

import os
import re
import subprocess
import threading
import time
from pathlib import Path

from client import Connection, showing
from multiplexed import MultiplexedClient, secured
from pace import Repeater
from processes import free_ports
from stack import derived_token, eventually
from world import NGINX_FOLDERS, Client, Unanswered, World

SERVICES = ("gateway", "gateway-2")

# The most seconds of an answer.
SLOW = 0.5

HAPROXY = """
defaults
  mode MODE
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend wallet
  bind 127.0.0.1:{port}
  SECOND
  default_backend gateways
backend gateways
  option httpchk GET /readyz
  default-server check inter 2s
  server one 127.0.0.1:{one} port {check_one}
  server two 127.0.0.1:{two} port {check_two}
"""

# The configuration of each proxy: its own defaults, and the health checks that Shared/Operations/README.md names.
CONFIGURATIONS = {
    "haproxy": HAPROXY.replace("MODE", "http").replace("SECOND", "bind 127.0.0.1:{port_2} proto h2"),
    # TLS and HTTP/2 are the gateways'.
    "haproxy-tcp": HAPROXY.replace("MODE", "tcp").replace("  SECOND\n", ""),
    "nginx": """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
  access_log off;""" + NGINX_FOLDERS + """
  upstream gateways {{ server 127.0.0.1:{one}; server 127.0.0.1:{two}; keepalive 16; }}
  server {{
    listen 127.0.0.1:{port};
    listen 127.0.0.1:{port_2} http2;
    keepalive_requests 100000000;
    location / {{ proxy_pass http://gateways; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
""",
    "caddy": """
{{
  admin off
  auto_https off
  servers {{
    protocols h1 h2 h2c
  }}
}}
http://127.0.0.1:{port}, http://127.0.0.1:{port_2} {{
  reverse_proxy 127.0.0.1:{one} 127.0.0.1:{two} {{
    lb_try_duration 2s
    fail_duration 10s
  }}
}}
""",
}
COMMANDS = {
    "haproxy": ["haproxy", "-db", "-f"], "haproxy-tcp": ["haproxy", "-db", "-f"], "nginx": ["nginx", "-c"],
    "caddy": ["caddy", "run", "--adapter", "caddyfile", "--config"],
}


class Restarts(World):
    def travel(self):
        self.add_gateway()
        for service in SERVICES:
            self.stack.edit_command(service, "WAYBILL_DRAIN_SECONDS=0", f"WAYBILL_DRAIN_SECONDS={self.arguments.drain}")
            self.stack.restart(service)
        self.publisher.send("restarts-1", "replaced", self.document | {"orderNumber": "1"})
        self.publisher.flush()
        key = f"{self.type}/restarts-1"
        token = self.document.get("authenticationToken") or derived_token(self.secret, key)
        self.path, self.headers = f"/v1/orders/{key}", showing(token)
        for proxy in self.arguments.proxies.split(","):
            self.findings.phase = proxy
            self.behind(proxy)

    def add_gateway(self):
        """Starts a second gateway."""
        first, self.ports = self.stack.gateway_port, [self.stack.gateway_port, free_ports(1)[0]]
        command = self.stack.command("gateway").replace(
            f"WAYBILL_LISTEN=127.0.0.1:{first}", f"WAYBILL_LISTEN=127.0.0.1:{self.ports[1]}")
        self.add_service(SERVICES[1], command)

    def behind(self, proxy):
        self.is_secure = proxy == "haproxy-tcp"
        if self.is_secure:
            self.secure()
        port, port_2 = free_ports(2)
        if self.is_secure:
            port_2 = port
        folder = f"{self.stack.folder}/{proxy}"
        os.makedirs(folder, exist_ok=True)
        checks = [self.operations_port(service) for service in SERVICES]
        Path(f"{folder}/configuration").write_text(CONFIGURATIONS[proxy].format(
            port=port, port_2=port_2, folder=folder, one=self.ports[0], two=self.ports[1], check_one=checks[0],
            check_two=checks[1]))
        with open(f"{folder}/log", "w") as log:
            process = subprocess.Popen([*COMMANDS[proxy], f"{folder}/configuration"], stdout=log, stderr=log)
        try:
            multiplexed = [MultiplexedClient(port_2, self.is_secure) for _ in range(2)]
            clients = [multiplexed[number // 8 % 2] for number in range(16)]
            clients += [SecureClient(port) if self.is_secure else Client(port) for _ in range(16)]
            for client in (clients[0], clients[-1]):
                eventually(f"{proxy} serving", lambda: self.ask(client, "GET") == 200, refusals=(Unanswered,))
            step = lambda number: self.step(clients[number], "POST" if number % 2 else "GET")
            with Crowd(self, port, port_2, folder), Repeater(step, self.arguments.rate, len(clients)) as load:
                load.wait(3)
                for number in range(self.arguments.restarts):
                    service = SERVICES[number % 2]
                    self.stack.restart(service)
                    eventually(f"{service} ready", lambda: self.is_ready(service))
                    # The proxy sees it with its next checks.
                    load.wait(5)
        finally:
            process.terminate()
            process.wait()

    def secure(self):
        """Gives the gateways a certificate."""
        folder = os.path.dirname(self.stack.env["ROOT_CA"])
        pair = f"WAYBILL_TLS_CERTIFICATE={folder}/server-certificate.pem WAYBILL_TLS_KEY={folder}/server-key.pem"
        for service in SERVICES:
            self.stack.edit_command(
                service, "WAYBILL_LISTEN=", f"{pair} WAYBILL_LISTEN=")
            self.stack.restart(service)
            eventually(f"{service} ready", lambda: self.is_ready(service))

    def is_ready(self, service):
        try:
            return self.probe(service, "readyz")[0] == 200
        except OSError:
            return False

    def ask(self, client, method):
        if method == "GET":
            return client.ask("GET", self.path, self.headers).status
        return client.ask("POST", "/v1/log", body='{"logs": ["restarts"]}').status

    def step(self, client, method):
        began = time.monotonic()
        try:
            status = self.ask(client, method)
        except Unanswered as error:
            return self.findings.add(f"{method} without an answer: {error}")
        seconds = time.monotonic() - began
        self.findings.saw(f"{self.findings.phase}: answers")
        if status != 200:
            self.findings.add(f"{method}: {status}")
        elif seconds > SLOW:
            self.findings.add(f"{method} took {seconds:.2f} s")


class SecureClient(Client):
    """A client of HTTP/1.1 over TLS."""

    def connect(self):
        connection = Connection(self.port)
        connection.socket = secured(connection.socket, "http/1.1")
        return connection


class Crowd:
    """
    Many further requests through a proxy, by h2load, over HTTP/1.1 and HTTP/2 in turn: `--crowd` a second.

    h2load does not go on after GOAWAY, so there is none where connections reach the gateways themselves.
    """

    def __init__(self, restarts, port, port_2, folder):
        self.restarts, self.folder, self.is_over = restarts, folder, threading.Event()
        clients = 8
        common = ["h2load", "-c", str(clients), "-D", "10", f"--rps={max(1, restarts.arguments.crowd // clients)}"]
        common += [f"--header={name}: {value}" for name, value in restarts.headers]
        self.commands = [
            [*common, "--h1", f"http://127.0.0.1:{port}{restarts.path}"],
            [*common, "-m", "16", f"http://127.0.0.1:{port_2}{restarts.path}"],
        ]
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        if self.restarts.arguments.crowd and not self.restarts.is_secure:
            self.thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        if self.thread.is_alive():
            self.thread.join(60)

    def run(self):
        while not self.is_over.is_set():
            for command in self.commands:
                self.judge(subprocess.run(command, capture_output=True, text=True).stdout)

    def judge(self, text):
        findings = self.restarts.findings
        found = re.search(
            r"requests: .* (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text)
        slowest = re.search(r"time for request: +\S+ +([0-9.]+)(us|ms|s) ", text)
        if not found or not slowest:
            return findings.add(f"h2load says nothing of its requests: {text[-300:]}")
        done, succeeded, *bad = map(int, found.groups())
        findings.saw(f"{findings.phase}: answers to h2load", done)
        if done != succeeded or any(bad):
            findings.add(f"h2load: {found[0]}")
        seconds = float(slowest[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[slowest[2]]
        if seconds > SLOW:
            findings.add(f"h2load: an answer took {seconds:.2f} s")
