"""
Servers that are not APNs take its place for a while, each with an answer of its own, under load. Then all devices must
have been told, and nothing may be a dead letter.
"""

import os
import subprocess
from pathlib import Path

from pace import Repeater
from processes import free_ports
from stack import derived_token, eventually, say
from topics import Offsets
from world import NGINX_FOLDERS, Device, World

DEVICES = 300
# The most seconds until each device is told, once APNs is back.
PATIENCE = 60

NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
  access_log off;""" + NGINX_FOLDERS + """
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    location / {{ {answer} }}
  }}
}}
"""
CADDY = """
{{
  admin off
  auto_https off
}}
https://localhost:{port} {{
  bind 127.0.0.1
  tls {certificate} {key}
  {answer}
}}
"""
H2O = """
listen:
  host: 127.0.0.1
  port: {port}
  ssl:
    certificate-file: {certificate}
    key-file: {key}
hosts:
  default:
    paths:
      /:
        {answer}
"""
# The command that takes a file of configuration, the file, and the answer.
SERVERS = {
    "nginx 404": (["nginx", "-c"], NGINX, "return 404;"),
    "nginx 301": (["nginx", "-c"], NGINX, "return 301 https://localhost/elsewhere;"),
    "nginx 400": (["nginx", "-c"], NGINX, "return 400;"),
    "h2o 405": (["h2o", "-c"], H2O, "file.dir: /usr/share/doc"),
    "caddy 421": (["caddy", "run", "--adapter", "caddyfile", "--config"], CADDY, "respond 421"),
    "caddy 200 KB": (["caddy", "run", "--adapter", "caddyfile", "--config"], CADDY, 'respond "{page}" 404'),
}
RELAY = """
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen apns
  bind 127.0.0.1:{port}
  server one 127.0.0.1:{target}
"""


class Foreign(World):
    def travel(self):
        self.port, self.elsewhere = free_ports(2)
        self.apns = int(self.stack.env["APNS_URL"].rpartition(":")[2])
        self.relay = None
        self.lead_to(self.apns)
        self.stack.edit_command(
            "pusher", f"WAYBILL_APNS_URL={self.stack.env['APNS_URL']}",
            f"WAYBILL_APNS_URL=https://localhost:{self.port}")
        self.stack.restart("pusher")
        self.enrol()
        try:
            for name in self.arguments.servers.split(","):
                self.meet(name)
        finally:
            self.relay.terminate()
        if letters := Offsets(self.stack).records("waybill.dead-letters"):
            self.findings.add(f"{len(letters)} dead letters, the first: {letters[0]}")

    def enrol(self):
        """Makes orders, each with a device."""
        self.findings.phase = "enrolment"
        self.devices = [Device(number, f"{self.type}/foreign-{number}") for number in range(DEVICES)]
        for device in self.devices:
            device.token = derived_token(self.secret, device.key)
            self.publisher.send(device.identifier, "replaced", self.document)
        self.publisher.flush()
        for device in self.devices:
            eventually("packages", lambda: device.fetch(self.client) == 200)
            if device.register(self.client) != 201:
                self.findings.add(f"{device.key} is not registered")
        self.change(self.devices, "0")
        self.expect_told(0)

    def change(self, devices, text):
        for device in devices:
            self.publisher.send(device.identifier, "patched", {"statusDescription": text})
        self.publisher.flush()

    def expect_told(self, first):
        if untold := self.untold(self.devices, first, PATIENCE):
            self.findings.add(f"{len(untold)} of {DEVICES} devices are not told")
        self.findings.saw(f"{self.findings.phase}: devices told", DEVICES)

    def meet(self, name):
        self.findings.phase = name
        command, configuration, answer = SERVERS[name]
        folder = f"{self.stack.folder}/{name.replace(' ', '-')}"
        os.makedirs(folder, exist_ok=True)
        certificates = os.path.dirname(self.stack.env["ROOT_CA"])
        Path(f"{folder}/configuration").write_text(configuration.format(
            folder=folder, port=self.elsewhere, certificate=f"{certificates}/server-certificate.pem",
            key=f"{certificates}/server-key.pem", answer=answer.format(page="x" * 200_000)))
        unsaid = self.said()
        with open(f"{folder}/log", "w") as log:
            server = subprocess.Popen([*command, f"{folder}/configuration"], stdout=log, stderr=log)
        try:
            self.lead_to(self.elsewhere)
            step = iter(range(1 << 30))
            with Repeater(lambda _: self.change([self.devices[next(step) % DEVICES]], f"{name} {next(step)}"),
                          self.arguments.rate) as load:
                load.wait(self.arguments.seconds)
            first = len(self.simulator.deliveries)
            self.change(self.devices, name)
            self.lead_to(self.apns)
        finally:
            server.terminate()
            server.wait()
        if self.said() == unsaid:
            self.findings.add("the pusher's log does not say that the answers are not APNs'")
        say(f"{name}: over")
        self.expect_told(first)

    def said(self):
        return self.log("pusher").count("not an answer of APNs")

    def lead_to(self, target):
        """Makes the pusher's APNs another server: its connections end."""
        if self.relay:
            self.relay.terminate()
            self.relay.wait()
        file = f"{self.stack.folder}/relay"
        Path(file).write_text(RELAY.format(port=self.port, target=target))
        self.relay = subprocess.Popen(["haproxy", "-db", "-f", file])
