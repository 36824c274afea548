"""Runs the publishers and derivers of this folder as a stranger would. `compose/connect/publish/run` starts it."""

import concurrent.futures
import contextlib
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from metrics import Metrics
from processes import Program, free_ports, listens
from stack import Stack, catch_signals, eventually, exit_code, ignore_signals, program

HERE = Path(__file__).parent
PYTHON, NODE, BASH = [f"{HERE}/../../../.build/publish/bin/python"], ["node"], ["bash"]
# For programs that run for a moment, this takes half of the processor time.
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
STARTS = {".py": PYTHON, ".sh": BASH, ".java": JAVA, ".mjs": NODE}
# Publishers, with the deriver in the same language.
KAFKA = {"over_kafka.py": "derived.py", "over_kafka.sh": "derived.sh"}
HTTP = {"over_http.py": "derived.py", "over_http.sh": "derived.sh", "OverHTTP.java": "Derived.java",
        "over_http.mjs": "derived.mjs"}
# By system, which is the name of its key and of its source: the key.
KEYS = {"oms": "sk_test_oms", "warehouse": "sk_test_warehouse"}


class World:
    """A stack with the checkout role, and files of settings and secrets for the programs."""

    def __init__(self, folder):
        self.folder, self.stack, self.checkout = Path(folder), Stack(f"{folder}/stack"), None

    def open(self):
        os.makedirs(self.stack.folder)
        self.stack.up()
        env, port = self.stack.env, free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}"
        for system, key in KEYS.items():
            (self.folder / system).write_text(f"{key}\n")
        merchant = self.folder / "merchants/shop"
        merchant.mkdir(parents=True)
        (merchant / "merchant.json").write_text(json.dumps({
            "merchantIdentifier": "merchant.com.example.shop", "displayName": "Shop",
            "orderTypeIdentifiers": [self.stack.type], "capabilities": ["order_tracking"],
            "origins": {"https://shop.example.com": {}},
            "keys": [{"name": system, "sha256": hashlib.sha256(key.encode()).hexdigest(), "scopes": ["orders"]}
                     for system, key in KEYS.items()]}))
        self.checkout = Program([program("waybill-gateway"), "checkout"], f"{self.folder}/checkout.log", {
            "WAYBILL_CHECKOUT_LISTEN": f"127.0.0.1:{port}", "WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:0",
            "WAYBILL_DRAIN_SECONDS": "0", "WAYBILL_MERCHANTS": f"{self.folder}/merchants",
            "WAYBILL_KAFKA_BOOTSTRAP": env["KAFKA_BOOTSTRAP"], "WAYBILL_KAFKA_PROPERTIES": env["KAFKA_PROPERTIES"],
            "WAYBILL_REDIS_URL": env["REDIS_URL"], "WAYBILL_BRANDS": env["BRANDS"],
            "WAYBILL_TOKEN_SECRETS": env["TOKEN_SECRETS"], "WAYBILL_WEB_SERVICE_URL": env["WEB_SERVICE_URL"]})
        self.checkout.await_ready(lambda: listens(port))
        self.properties = self.folder / "publisher.properties"
        self.properties.write_text(f"# A broker of this machine.\nbootstrap.servers={env['KAFKA_BOOTSTRAP']}\n")
        # `java Derived.java` compiles it each time.
        subprocess.run([*JAVA, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-Xlint:all,-serial", "-Werror",
                        "-d", f"{self.folder}/classes", "Derived.java", "OverHTTP.java"], cwd=HERE, check=True)

    def close(self):
        if self.checkout:
            self.checkout.stop()
        self.stack.down()
        shutil.rmtree(self.folder)

    def start(self, name):
        """Returns the words that start a program."""
        path = Path(name)
        if path.suffix == ".java":
            return [*JAVA, "-cp", f"{self.folder}/classes", path.stem]
        return [*STARTS[path.suffix], name]

    def publish(self, name, system, *words, data=None, **environment):
        """Runs a publisher, and returns what subprocess does. data: a file of this folder, or bytes."""
        body = (HERE / data).read_bytes() if isinstance(data, str) else data or b""
        return subprocess.run(
            [*self.start(name), *words], cwd=HERE, input=body, capture_output=True, timeout=120, env=os.environ | {
                "SOURCE": f"/{system}", "PUBLISHER_PROPERTIES": str(self.properties), "CHECKOUT_URL": self.url,
                "CHECKOUT_KEY_FILE": f"{self.folder}/{system}"} | environment)

    def derive(self, name, *words, **environment):
        return subprocess.run(
            [*self.start(name), *words], cwd=HERE, check=True, stdout=subprocess.PIPE, text=True, timeout=60,
            env=os.environ | self.stack.env | environment).stdout.strip()


def fetch(url, token=None):
    """Returns the status and the body."""
    request = urllib.request.Request(url, headers={"Authorization": f"AppleOrder {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def document_in(package):
    return json.loads(zipfile.ZipFile(io.BytesIO(package)).read("order.json"))


class Fault(http.server.BaseHTTPRequestHandler):
    """Answers 503, cuts the connection, answers 409, then takes the change. Keeps what arrived in `seen`."""

    def do_POST(self):
        number, body = len(self.server.seen), self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers["Idempotency-Key"], self.headers["Authorization"], body))
        if number == 1:
            self.close_connection = True
            return
        status, code = ((503, "unavailable"), None, (409, "in_progress"), (202, None))[number]
        answer = json.dumps({"error": {"code": code}} if code else {"id": "taken"}, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def faulty_service():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fault) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class ProgramTests(unittest.TestCase):
    def each(self, names, check):
        """Calls a check for each name, several at a time: most of them wait."""
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            checks = {name: pool.submit(check, name) for name in names}
        for name, ended in checks.items():
            with self.subTest(name):
                ended.result()

    def order_of(self, url, token=None):
        """Returns order.json of a package that openssl and the verifier find right."""
        status, package = fetch(url, token)
        self.assertEqual(status, 200, package)
        with tempfile.NamedTemporaryFile(dir=world.folder, suffix=".order") as file:
            file.write(package)
            file.flush()
            verified = subprocess.run(
                [program("waybill-dev"), "verify", file.name, "--root", world.stack.env["ROOT_CA"]],
                capture_output=True, text=True)
        self.assertEqual(verified.returncode, 0, verified.stdout)
        return document_in(package)

    def published(self, *arguments, **options):
        ran = world.publish(*arguments, **options)
        self.assertEqual(ran.returncode, 0, ran.stderr.decode())
        return ran.stdout

    def test_the_order_of_each_publisher_is_fetched_and_verified_until_it_is_removed(self):
        derivers = KAFKA | HTTP

        def check(name):
            order, deriver = f"{world.stack.type}/{name.replace('_', '-')}", derivers[name]
            url, token = f"{world.stack.env['GATEWAY_URL']}/v1/orders/{order}", world.derive(deriver, "token", order)
            first = self.published(name, "oms", "merge", order, "oms-1", data="order.json")
            document = self.order_of(url, token)
            self.assertEqual(document["payment"]["total"]["amount"], "96.00")
            self.assertNotIn("fulfillments", document)
            self.assertEqual(self.published(name, "oms", "merge", order, "oms-1", data="order.json"), first)

            self.published(name, "warehouse", "merge", order, "warehouse-1", data="shipment.json")
            eventually("the shipment", lambda: "fulfillments" in document_in(fetch(url, token)[1]), 60)
            shipped = self.order_of(url, token)
            self.assertEqual(shipped["fulfillments"][0]["trackingNumber"], "EP123456789US")
            self.assertEqual(shipped["payment"], document["payment"])
            link = world.derive(deriver, "link", order, str(int(time.time()) + 600))
            link = link.replace(world.stack.env["WEB_SERVICE_URL"], world.stack.env["GATEWAY_URL"])
            self.assertEqual(self.order_of(link), shipped)

            self.published(name, "oms", "remove", order, "oms-2")
            eventually("the removal", lambda: fetch(url, token)[0] == 401, 60)

        self.each(derivers, check)
        # Over HTTP the second answer is the first one again, and nothing is published.
        skipped = Metrics.of(world.stack.env["OPERATIONS_PACKAGER"]).total(
            "waybill_changes_skipped_total", reason="duplicate")
        self.assertEqual(skipped, len(KAFKA))

    def test_each_type_of_change_is_taken_as_the_document_sends_it(self):
        document = (HERE / "README.md").read_text()
        text = document.split("<!-- run: requests -->\n```bash\n")[1].split("```")[0]
        order = f"{world.stack.type}/each-change"
        first, rest = text.split("# waybill.order.patched")
        environment = os.environ | {"CHECKOUT_URL": world.url, "CHECKOUT_KEY": KEYS["oms"], "ORDER": order}

        def send(commands):
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", commands], cwd=HERE, env=environment, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            return [json.loads(line)["type"] for line in ran.stdout.splitlines()]

        types = send(first)
        # A patch needs its order.
        url, token = f"{world.stack.env['GATEWAY_URL']}/v1/orders/{order}", world.derive("derived.py", "token", order)
        eventually("the order", lambda: fetch(url, token)[0] == 200, 60)
        types += send(f"{first.split('# ')[0]}# {rest}")
        self.assertEqual(types, re.findall(r"^# (waybill\.[a-z.]+):", text, re.M))
        schema = json.loads((HERE / "../../../Shared/Model/Schemas/order-change.schema.json").read_text())
        self.assertEqual(set(types), set(re.findall(r"^\| `(waybill\.[a-z.]+)` \|", document, re.M)))
        self.assertEqual(set(types), set(re.findall(r'"(waybill\.[a-z]+\.[a-z]+)"', json.dumps(schema))))

    def test_each_deriver_agrees_with_the_vectors(self):
        vectors = json.loads((HERE / "vectors.json").read_text())

        def check(name):
            for vector in vectors:
                with tempfile.NamedTemporaryFile(dir=world.folder) as secrets:
                    secrets.write(vector["secrets"].encode())
                    secrets.flush()
                    given = {"TOKEN_SECRETS": secrets.name, "WEB_SERVICE_URL": vector["webServiceURL"]}
                    order, expires = vector["order"], str(vector["expires"])
                    token = world.derive(name, "token", order, **given)
                    link = world.derive(name, "link", order, expires, **given)
                self.assertEqual((token, link), (vector["token"], vector["link"]), vector["name"])

        self.each(HTTP.values(), check)

    def test_a_refusal_is_reported_with_its_code_and_not_repeated(self):
        def check(name):
            ran = world.publish(
                name, "oms", "merge", f"{world.stack.type}/refused", f"{name}-1", data=b'{"status": "opened"}')
            self.assertEqual((ran.returncode, ran.stdout), (1, b""))
            self.assertIn(b"refused: 422 ", ran.stderr)
            self.assertIn(b'"order_invalid"', ran.stderr)

        self.each(HTTP, check)

    def test_an_http_publisher_sends_the_same_request_until_it_is_taken(self):
        def check(name):
            with faulty_service() as server:
                self.published(name, "oms", "merge", "order.a.b/1", "oms-1", data="order.json",
                               CHECKOUT_URL=f"http://127.0.0.1:{server.server_port}")
            self.assertEqual(len(server.seen), 4)
            self.assertEqual(len(set(server.seen)), 1)
            path, key, authorization, body = server.seen[0]
            self.assertEqual((path, key), ("/v1/checkout/orders/order.a.b/1/merge", "oms-1"))
            self.assertEqual(authorization, f"Bearer {KEYS['oms']}")
            self.assertEqual(json.loads(body), json.loads((HERE / "order.json").read_text()))

        self.each(HTTP, check)

    def test_a_kafka_publisher_reports_a_change_that_no_broker_took(self):
        away = world.folder / "away.properties"
        away.write_text("bootstrap.servers=127.0.0.1:1\ndelivery.timeout.ms=1000\n")

        def check(name):
            ran = world.publish(
                name, "oms", "merge", "order.a.b/1", "oms-1", data="order.json", PUBLISHER_PROPERTIES=str(away))
            self.assertEqual(ran.returncode, 1)
            self.assertIn(b"not published, publish it again under the same ID", ran.stderr)

        self.each(KAFKA, check)

    def test_a_program_without_words_shows_its_usage(self):
        def check(name):
            # As the document starts it.
            ran = subprocess.run([*STARTS[Path(name).suffix], name], cwd=HERE, capture_output=True, text=True)
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn("ORDER   <order type>/<order>", ran.stderr)

        self.each({**KAFKA, **HTTP, **dict.fromkeys(HTTP.values())}, check)


def main():
    global world
    catch_signals()
    world = World(tempfile.mkdtemp(prefix="waybill-publish."))
    try:
        world.open()
        return not unittest.main(exit=False).result.wasSuccessful()
    finally:
        ignore_signals()
        world.close()


if __name__ == "__main__":
    sys.exit(exit_code(main))
