"""
Payments are confirmed through checkouts that die, at a provider that fails in every way. Each caller repeats its request
with its key. The provider must have seen no key twice, and each caller must get one outcome.
"""

import collections
import hashlib
import json
import os
import random
import socket
import ssl
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pace import Repeater
from processes import free_ports
from stack import eventually
from world import Client, Unanswered, World

KEY = "sk_test_confirmations"
CHECKOUTS = ("checkout-first", "checkout-second")
# The most times that a caller sends its request, and callers at a time.
ATTEMPTS, CALLERS = 5, 48
# Seconds after which a request whose process died counts as unknown.
RUNNING = 120
# How the provider behaves, with weights.
CONDUCT = {
    "answers": 50, "declines": 8, "delays": 10, "ends before reading": 8, "executes, then ends": 8,
    "executes, then ends within the answer": 6, "fails": 5, "executes, then fails": 5,
}


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        journal = self.server.journal
        conduct = random.choices(list(CONDUCT), CONDUCT.values())[0]
        if conduct == "ends before reading":
            journal.note("connections ended before the request was read")
            return self.cut()
        body = self.rfile.read(int(self.headers["content-length"]))
        payment = self.path.split("/")[3]
        if conduct == "delays":
            time.sleep(random.uniform(0.2, 3))
        if conduct not in ("declines", "fails"):
            journal.executed(payment)
        if conduct == "executes, then ends":
            return self.cut()
        status = {"declines": 402, "fails": 500, "executes, then fails": 503}.get(conduct, 200)
        answer = json.dumps({"id": payment, "object": "payment_intent", "paid": len(body), "by": conduct}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        if conduct == "executes, then ends within the answer":
            self.wfile.write(answer[:7])
            return self.cut()
        self.wfile.write(answer)

    def cut(self):
        """Ends the connection with a reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, *_):
        # The other side ended: a checkout was killed.
        pass


class Journal:
    """What the provider executed. Threads: any."""

    def __init__(self):
        self.lock, self.payments, self.notes = threading.Lock(), collections.Counter(), collections.Counter()

    def executed(self, payment):
        with self.lock:
            self.payments[payment] += 1

    def note(self, what):
        with self.lock:
            self.notes[what] += 1


class Confirmations(World):
    def travel(self):
        self.journal = Journal()
        server = self.start_provider()
        try:
            self.start_checkouts(server.server_address[1])
            self.clients = [[Client(port) for port in self.ports] for _ in range(CALLERS)]
            self.lock, self.next, self.outcomes = threading.Lock(), 0, {}
            with Repeater(self.kill, 1 / self.arguments.pause):
                callers = [threading.Thread(target=self.call, args=(number,)) for number in range(CALLERS)]
                for caller in callers:
                    caller.start()
                for caller in callers:
                    caller.join()
            self.look_back()
        finally:
            server.shutdown()

    def start_provider(self):
        server = Server(("127.0.0.1", 0), Provider)
        server.journal = self.journal
        certificates = os.path.dirname(self.stack.env["ROOT_CA"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{certificates}/server-certificate.pem", f"{certificates}/server-key.pem")
        # The handshake belongs to the connection's own thread.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def start_checkouts(self, port):
        folder = f"{self.stack.folder}/merchants/shop"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/authorization", "w") as file:
            file.write("Bearer sk_test_provider\n")
        os.chmod(f"{folder}/authorization", 0o600)
        with open(f"{folder}/roots.pem", "w") as file, open(self.stack.env["ROOT_CA"]) as roots:
            file.write(roots.read())
        with open(f"{folder}/merchant.json", "w") as file:
            json.dump({
                "merchantIdentifier": "merchant.com.example.shop", "displayName": "Shop",
                "orderTypeIdentifiers": [self.type], "capabilities": ["order_tracking"], "origins": {},
                "keys": [{
                    "name": "shop", "sha256": hashlib.sha256(KEY.encode()).hexdigest(), "scopes": ["confirm"],
                }],
                "confirm": {
                    "mode": "forward", "url": f"https://localhost:{port}/v1/payment_intents/{{id}}/confirm",
                    "authorization": "authorization", "addresses": ["127.0.0.1"], "roots": "roots.pem",
                },
            }, file)
        self.ports = free_ports(len(CHECKOUTS))
        for name, own in zip(CHECKOUTS, self.ports):
            command = self.stack.command("gateway").replace("exec env", (
                f"exec env WAYBILL_CHECKOUT_LISTEN=127.0.0.1:{own} "
                f"WAYBILL_MERCHANTS={self.stack.folder}/merchants"), 1)
            self.add_service(name, f"{command} checkout")

    def kill(self, _):
        """Kills one checkout, and starts it again."""
        name = random.choice(CHECKOUTS)
        self.stack.run("kill", name)
        self.stack.start(name)
        self.findings.saw("checkouts killed")

    # --- callers -----------------------------------------------------------------------------------------------------

    def call(self, number):
        while True:
            with self.lock:
                payment, self.next = self.next, self.next + 1
            if payment >= self.arguments.payments:
                return
            for _ in range(ATTEMPTS):
                self.take(payment, self.send(payment, random.choice(self.clients[number])))
                time.sleep(random.uniform(0, 0.05))

    def send(self, payment, client):
        """Returns the outcome that a request got, or None if it has to be repeated."""
        body = (f"payment_method=pm_{payment}&apple_pay_order_details[order_type_identifier]={self.type}"
                f"&apple_pay_order_details[order_identifier]={payment}")
        try:
            answer = client.ask("POST", f"/v1/payment_intents/pi_{payment}/confirm", [
                ("authorization", f"Bearer {KEY}"), ("idempotency-key", f"key-{payment}"),
                ("content-type", "application/x-www-form-urlencoded")], body)
        except Unanswered:
            self.findings.saw("requests without an answer")
            return None
        told = json.loads(answer.body)
        code = told.get("error", {}).get("code", "") if isinstance(told.get("error"), dict) else ""
        self.findings.saw(f"answers {answer.status} {code or told.get('by', '')}")
        # Nothing was done, or the first request is still in progress.
        if code in ("upstream_unavailable", "unavailable", "in_progress", "busy"):
            return None
        # A provider's failure is passed on once; nobody knows what it did.
        return "unknown" if answer.status // 100 == 5 else f"{answer.status} {code or answer.body.decode()}"

    def take(self, payment, outcome):
        if outcome is None:
            return
        with self.lock:
            first = self.outcomes.setdefault(payment, outcome)
        if first != outcome:
            self.findings.add(f"payment {payment} was answered {first}, then {outcome}")

    def look_back(self):
        """Asks for each payment once more, after the time for which a killed one counts as running."""
        self.findings.phase = "once more"
        time.sleep(RUNNING + 5)
        client = Client(self.ports[0])

        def outcome(payment):
            eventually(f"an outcome of payment {payment}", lambda: self.decided(payment, client), 60, 0.1)

        for payment in range(self.arguments.payments):
            outcome(payment)
        kinds = collections.Counter(outcome.split(" ")[0] for outcome in self.outcomes.values())
        for kind, count in kinds.items():
            self.findings.saw(f"outcomes: {kind}", count)
        twice = [payment for payment, count in self.journal.payments.items() if count > 1]
        for payment in twice:
            self.findings.add(f"{payment} was executed {self.journal.payments[payment]} times")
        self.findings.saw("payments that the provider executed", len(self.journal.payments))
        for payment, told in self.outcomes.items():
            if told.startswith("200") and f"pi_{payment}" not in self.journal.payments:
                self.findings.add(f"payment {payment} was answered {told} and not executed")

    def decided(self, payment, client):
        outcome = self.send(payment, client)
        self.take(payment, outcome)
        return outcome
