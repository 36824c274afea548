"""
Two gateways behind a proxy are restarted in turn, while clients fetch an order and send messages of devices.

A gateway that is told to stop says so to the proxy's health checks and still takes connections, so no client notices.
"""

import os
import subprocess
import time
import urllib.request
from pathlib import Path

from client import showing
from pace import Repeater
from processes import free_ports
from stack import derived_token, eventually
from world import Client, Unanswered, World

SERVICES = ("gateway", "gateway-2")

# The most seconds of an answer.
SLOW = 0.5

# The configuration of each proxy: its own defaults, and the health checks that Shared/Operations/README.md names.
CONFIGURATIONS = {
    "haproxy": """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend wallet
  bind 127.0.0.1:{port}
  default_backend gateways
backend gateways
  option httpchk GET /readyz
  default-server check inter 2s
  server one 127.0.0.1:{one} port {check_one}
  server two 127.0.0.1:{two} port {check_two}
""",
    "nginx": """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream gateways {{ server 127.0.0.1:{one}; server 127.0.0.1:{two}; keepalive 16; }}
  server {{
    listen 127.0.0.1:{port};
    keepalive_requests 100000000;
    location / {{ proxy_pass http://gateways; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
""",
    "caddy": """
{{
  admin off
  auto_https off
}}
http://127.0.0.1:{port} {{
  reverse_proxy 127.0.0.1:{one} 127.0.0.1:{two} {{
    lb_try_duration 2s
    fail_duration 10s
  }}
}}
""",
}
COMMANDS = {
    "haproxy": ["haproxy", "-db", "-f"], "nginx": ["nginx", "-c"],
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
        port = free_ports(1)[0]
        folder = f"{self.stack.folder}/{proxy}"
        os.makedirs(folder, exist_ok=True)
        checks = [self.operations_port(service) for service in SERVICES]
        Path(f"{folder}/configuration").write_text(CONFIGURATIONS[proxy].format(
            port=port, folder=folder, one=self.ports[0], two=self.ports[1], check_one=checks[0], check_two=checks[1]))
        with open(f"{folder}/log", "w") as log:
            process = subprocess.Popen([*COMMANDS[proxy], f"{folder}/configuration"], stdout=log, stderr=log)
        try:
            clients = [Client(port) for _ in range(16)]
            eventually(f"{proxy} serving", lambda: self.ask(clients[0], "GET") == 200, refusals=(Unanswered,))
            step = lambda number: self.step(clients[number], "POST" if number % 2 else "GET")
            with Repeater(step, self.arguments.rate, len(clients)) as load:
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

    def operations_port(self, service):
        lines = Path(f"{self.stack.folder}/run/ports").read_text().split()
        return int(dict(line.split("=") for line in lines)[service])

    def is_ready(self, service):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.operations_port(service)}/readyz") as answer:
                return answer.status == 200
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
