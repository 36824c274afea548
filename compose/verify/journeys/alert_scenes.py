"""
The scenes of compose/journey alerts: what provokes each alert, and the cure.

A scene yields the alerts that must fire before it goes on.
"""

import collections
import hashlib
import http.server
import inspect
import itertools
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

from metrics import Metrics
from pace import Repeater
from processes import free_ports
from simulator import tell
from stack import derived_token, eventually
from topics import CHANGES, Reader
from world import Client, Device, Unanswered, World

KEY = "sk_test_alerts"
PACKAGERS, PUSHERS = ("packager", "packager-2"), ("pusher", "pusher-2")
# Orders and events of another order type, whose brand is broken now and then.
OTHER = "order.com.example.other"
# One whose brand comes late.
LATE = "order.com.example.late"
# The topic of a carrier, and the program that maps it.
CARRIER = "carrier.scans"
MAP = 'function map(scan) return {{order = scan.order, type = "patched", data = {statusDescription = scan.at}}} end'
# The same with a link that is none.
MAP_WITHOUT_LINK = MAP.replace("statusDescription", 'orderManagementURL = "ask us", statusDescription')
LETTERS = "waybill.dead-letters"
# The numbers of partitions by topic, in Redis.
PARTITIONS = "waybill:1:{partitions}"
# The sums of the bytes of receipts and labels by order type, in Redis.
DOCUMENT_BYTES = "waybill:1:{document-bytes}"
UNPROVOKED = {
    "WaybillVersionsDiffer": "it needs programs of two builds; compose/verify/checks/alerts.py tries its rule",
    "WaybillOrdersDiffer": "orders are compared twice a day, when they are old; ColdOrderServiceTests has that",
    "WaybillUpdatesLate": "devices fetch here when they like, so adoption is not counted",
    "WaybillUpdatesLateSlowly": "likewise",
    "WaybillUpdatesUnfetched": "likewise",
    "WaybillPartitionsBehind": "the embedded broker deletes no topic; RestoreServiceTests has that",
}


class Provider(http.server.BaseHTTPRequestHandler):
    """A payment provider that takes every payment."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"id": self.path.split("/")[3], "object": "payment_intent"}).encode()
        self.send_response(self.server.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 512

    def handle_error(self, *_):
        pass


class Scenes(World):
    def start_checkout(self):
        """Starts a checkout with a merchant whose payments go to a provider."""
        self.provider = Server(("127.0.0.1", 0), Provider)
        self.provider.status = 200
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self.certificates}/server-certificate.pem", f"{self.certificates}/server-key.pem")
        self.provider.socket = context.wrap_socket(
            self.provider.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.provider.serve_forever, daemon=True).start()
        self.merchant = f"{self.stack.folder}/merchants/shop"
        os.makedirs(self.merchant, exist_ok=True)
        Path(f"{self.merchant}/authorization").write_text("Bearer sk_test_provider\n")
        os.chmod(f"{self.merchant}/authorization", 0o600)
        shutil.copy(self.stack.env["ROOT_CA"], f"{self.merchant}/roots.pem")
        Path(f"{self.merchant}/merchant.json").write_text(json.dumps({
            "merchantIdentifier": "merchant.com.example.shop", "displayName": "Shop",
            "orderTypeIdentifiers": [self.type], "capabilities": ["order_tracking"], "origins": {},
            "keys": [{"name": "shop", "sha256": hashlib.sha256(KEY.encode()).hexdigest(),
                      "scopes": ["confirm", "orders"]}],
            "confirm": {
                "mode": "forward", "authorization": "authorization", "addresses": ["127.0.0.1"], "roots": "roots.pem",
                "url": f"https://localhost:{self.provider.server_address[1]}/v1/payment_intents/{{id}}/confirm"},
        }))
        self.checkout_port = free_ports(1)[0]
        command = self.stack.command("gateway").replace("exec env", (
            f"exec env WAYBILL_CHECKOUT_LISTEN=127.0.0.1:{self.checkout_port} "
            f"WAYBILL_MERCHANTS={self.stack.folder}/merchants"), 1)
        self.add_service("checkout", f"{command} checkout")

    def start_tls(self):
        self.tls_port = free_ports(1)[0]
        gateway = f"127.0.0.1:{self.stack.gateway_port}"
        self.add_service("gateway-tls", self.stack.command("gateway").replace(
            f"WAYBILL_LISTEN={gateway}", f"WAYBILL_LISTEN=127.0.0.1:{self.tls_port} WAYBILL_CONNECTION_LIMIT=64 "
            f"WAYBILL_TLS_CERTIFICATE={self.certificates}/server-certificate.pem "
            f"WAYBILL_TLS_KEY={self.certificates}/server-key.pem", 1))

    def start_ingest(self):
        """Starts the role ingest, with a carrier as its source."""
        # The embedded broker creates the topic.
        self.publisher.producer.list_topics(CARRIER, timeout=10)
        self.carrier = Path(f"{self.stack.folder}/sources/carrier")
        self.carrier.mkdir(parents=True, exist_ok=True)
        (self.carrier / "map.lua").write_text(MAP)
        (self.carrier / "source.json").write_text(json.dumps(
            {"topics": [CARRIER], "format": "json", "name": "/carrier", "orderType": self.type}))
        command = self.stack.command("packager").replace(
            "exec env", f"exec env WAYBILL_SOURCES={self.stack.folder}/sources", 1)
        self.add_service("ingest", f"{command} ingest")

    @property
    def certificates(self):
        return os.path.dirname(self.stack.env["ROOT_CA"])

    def confirm(self, checkout, payment):
        """Confirms a payment, and returns the status of the answer."""
        return checkout.ask(
            "POST", f"/v1/payment_intents/pi_{payment}/confirm",
            [("authorization", f"Bearer {KEY}"), ("idempotency-key", f"key-{payment}"),
             ("content-type", "application/x-www-form-urlencoded")],
            f"payment_method=pm_1&apple_pay_order_details[order_type_identifier]={self.type}"
            f"&apple_pay_order_details[order_identifier]={payment}").status

    def publish(self, checkout, order):
        """Publishes a change of an order through the checkout, and returns the status of the answer."""
        return checkout.ask(
            "PATCH", f"/v1/checkout/orders/{self.type}/{order}",
            [("authorization", f"Bearer {KEY}"), ("content-type", "application/json")],
            json.dumps({"statusDescription": f"{time.time_ns()}"})).status

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def repeated(self, step, rate):
        """Does something at a rate in the background, whatever comes of it."""
        def patiently(_):
            try:
                step()
            except (OSError, Unanswered):
                pass

        return Repeater(patiently, rate)

    def fault(self, **fault):
        tell(self.stack.env["APNS_ADMIN_URL"], "/faults", "POST", fault)

    def heal(self):
        tell(self.stack.env["APNS_ADMIN_URL"], "/faults", "DELETE")

    def worker_killed(self):
        self.stack.run("kill", "packager-2")
        yield ["WaybillDown"]
        self.stack.start("packager-2")

    def change_all(self):
        """Publishes more changes than may be unfinished, two of each order."""
        for number in range(500):
            self.publisher.send(f"alerts-{number % 250}", "patched", {"statusDescription": f"{time.time_ns()}"})
        self.publisher.flush()

    def redis_away(self):
        # Pushers that have caught up have nothing to look up.
        for service in PUSHERS:
            self.stack.signal(service, signal.SIGSTOP)
        self.change_all()
        time.sleep(4)
        self.stack.stop("redis")
        for service in PUSHERS:
            self.stack.signal(service, signal.SIGCONT)
        self.change_all()
        yield ["WaybillUpstreamDown", "WaybillFetchesFail", "WaybillFetchesFailSlowly", "WaybillPackagerLags",
               "WaybillOrdersParked", "WaybillPackagerQuiet", "WaybillPusherLags", "WaybillPusherLookupsFail",
               "WaybillPusherQuiet"]
        self.stack.start("redis")
        yield ["WaybillChangesLate", "WaybillChangesLateSlowly"]

    def redis_full(self):
        self.stack.redis.ask("CONFIG", "SET", "maxmemory", f"{round(self.stack.redis.used_memory() * 1.05)}")
        yield ["WaybillRedisFull"]
        self.stack.redis.ask("CONFIG", "SET", "maxmemory", "0")

    def redis_evicts(self):
        self.stack.redis.ask("CONFIG", "SET", "maxmemory", "2gb")
        self.stack.redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        yield ["WaybillRedisFault"]
        self.stack.redis.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.stack.redis.ask("CONFIG", "SET", "maxmemory", "0")

    def dead_letter(self):
        self.publisher.send("alerts-0", "patched", {"merchant": {"displayName": 7}})
        yield ["WaybillDeadLetters"]

    def dead_letter_old(self):
        self.publisher.send("alerts-0", "patched", {"merchant": {"displayName": 8}})
        self.publisher.flush()
        reader = Reader(self.stack.env["KAFKA_BOOTSTRAP"])
        letter = eventually("a dead letter", lambda: reader.messages(LETTERS))[-1]
        reader.close()
        # A dead letter is known by its origin, so this is another one.
        headers = dict(letter.headers()) | {"waybill-origin": f"{CHANGES}/0/999999"}
        self.publisher.put(
            LETTERS, letter.key(), letter.value(), headers=headers, timestamp=int((time.time() - 4 * 86400) * 1000))
        self.publisher.flush()
        yield ["WaybillDeadLettersOld"]
        self.stack.run_program("packager", "dead-letters purge --before 3d")

    def provider_fails(self):
        self.provider.status = 500
        yield ["WaybillCheckoutFails"]
        self.provider.status = 200

    def merchant_broken(self):
        file = Path(f"{self.merchant}/merchant.json")
        text = file.read_text()
        file.write_text("{")
        yield ["WaybillMerchantLoadFailed"]
        file.write_text(text)

    def handshakes_fail(self):
        def speak():
            with socket.create_connection(("127.0.0.1", self.tls_port), timeout=5) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                plain.recv(100)

        with self.repeated(speak, 20):
            yield ["WaybillHandshakesFail"]

    def connections_refused(self):
        # A connection without a request gives way to others after a second: more of them than the limit arrive in one.
        crowd = collections.deque(maxlen=200)
        with self.repeated(lambda: crowd.append(socket.create_connection(("127.0.0.1", self.tls_port), 5)), 150):
            yield ["WaybillConnectionsRefused"]
        crowd.clear()

    def new_devices(self, orders):
        """Registers new devices for some orders in turn, in the background."""
        client, numbers = Client(self.stack.gateway_port), itertools.count(100_000)

        def register():
            number = next(numbers)
            key = f"{self.type}/alerts-{number % orders}"
            Device(number, key, derived_token(self.secret, key)).register(client)

        return self.repeated(register, 20)

    def registrations_refused(self):
        with self.new_devices(1):
            yield ["WaybillRegistrationsRefused"]

    def wallet_refuses(self):
        client = Client(self.stack.gateway_port)
        body = json.dumps({"logs": [f"{self.type}: Signature must contain a signing date"]})
        with self.repeated(lambda: client.ask("POST", "/v1/log", [("content-type", "application/json")], body), 2):
            yield ["WaybillWalletRefuses"]

    def kafka_away(self):
        client = Client(self.checkout_port)
        self.stack.stop("kafka")
        with self.repeated(lambda: self.publish(client, "alerts-1"), 2):
            yield ["WaybillUpstreamDown", "WaybillCheckoutChangesFail"]
        self.stack.redis.ask("FLUSHALL")
        yield ["WaybillViewIncomplete"]
        self.stack.start("kafka")

    def kafka_slow(self):
        def stall():
            self.stack.signal("kafka", signal.SIGSTOP)
            time.sleep(0.9)
            self.stack.signal("kafka", signal.SIGCONT)

        # Only a registration that changes something waits for Kafka.
        with self.repeated(stall, 1), self.new_devices(250):
            yield ["WaybillGatewaySlow"]

    def workers_paused(self):
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for service in PACKAGERS:
                self.stack.signal(service, number)
            # The group does without them after the session timeout, 10 s.
            time.sleep(13 if number == signal.SIGSTOP else 0)
        yield ["WaybillPartitionsLost"]

    def packages_missing(self):
        # A version after the first has no package, since no device follows its order, and nobody is there to make it.
        orders = [f"unfollowed-{number}" for number in range(20)]
        self.publisher.replace_with_example(orders)
        left = self.packagers_total("waybill_packages_left_total") + len(orders)
        for order in orders:
            self.publisher.send(order, "patched", {"statusDescription": "nobody looks"})
        eventually("versions without a package", lambda: self.packagers_total("waybill_packages_left_total") >= left)
        keys, client = itertools.cycle([f"{self.type}/{order}" for order in orders]), Client(self.stack.gateway_port)

        def fetch():
            key = next(keys)
            return Device(0, key, derived_token(self.secret, key)).fetch(client)

        self.stack.stop(*PACKAGERS)
        with self.repeated(fetch, 10):
            yield ["WaybillFetchesFail"]
        self.stack.start(*PACKAGERS)
        eventually("a package that is asked for", lambda: fetch() == 200)

    def group_rebalances(self):
        # Meanwhile Kafka takes no positions. Without Kafka a worker soon has no partitions, and commits nothing.
        with self.repeated(lambda: self.stack.restart("packager-2"), 1):
            yield ["WaybillCommitsFail"]

    def partitions_added(self):
        count = self.stack.redis.ask("HGET", PARTITIONS, "waybill.orders")
        self.stack.redis.ask("HSET", PARTITIONS, "waybill.orders", f"{int(count) - 16}")
        yield ["WaybillPartitionsAdded"]
        self.stack.redis.ask("HSET", PARTITIONS, "waybill.orders", count)

    # --- orders and brands -------------------------------------------------------------------------------------------

    def unknown_orders(self):
        orders = [f"unknown-{number}" for number in range(40)]
        for order in orders:
            self.publisher.send(order, "patched", {"statusDescription": "before its order"})
        yield ["WaybillUnknownOrders"]
        self.publisher.replace_with_example(orders)

    def other_brand(self):
        """Returns the folder of another brand, which has an order."""
        folder = f"{self.stack.env['BRANDS']}/{OTHER}"
        if not os.path.exists(folder):
            self.stack.add_brand(OTHER)
            self.await_packagers(OTHER, 0)
            key = f"{OTHER}/1"
            self.publisher.send_event(key, "waybill.order.replaced", self.document)
            place = f"waybill:1:order:{{{key}}}"
            eventually("a package of another brand", lambda: self.stack.redis.ask("EXISTS", place))
        return folder

    def packagers_total(self, name):
        return sum(Metrics.of(f"http://127.0.0.1:{self.operations_port(service)}").total(name) for service in PACKAGERS)

    def await_packagers(self, brand, has_failed):
        """Waits until all packagers have looked at a new brand; a change that one gets before that is a dead letter."""
        def is_known(service):
            metrics = Metrics.of(f"http://127.0.0.1:{self.operations_port(service)}")
            return metrics.by("waybill_brand_load_failed", "brand").get(brand) == has_failed

        eventually(f"packagers that know {brand}", lambda: all(map(is_known, PACKAGERS)))

    def brand_broken(self):
        file = Path(f"{self.other_brand()}/brand.json")
        text = file.read_text()
        file.write_text("{")
        yield ["WaybillBrandLoadFailed", "WaybillReloadFailed"]
        file.write_text(text)

    def certificate_ends(self):
        file = Path(f"{self.other_brand()}/certificate.pem")
        text = file.read_text()
        request = subprocess.run(
            ["openssl", "x509", "-x509toreq", "-in", file, "-signkey", file.parent / "key.pem", "-copy_extensions",
             "copyall"], check=True, capture_output=True, text=True).stdout
        ending = subprocess.run(
            ["openssl", "x509", "-req", "-days", "10", "-copy_extensions", "copyall", "-CA",
             f"{self.certificates}/intermediate.pem", "-CAkey", f"{self.certificates}/intermediate-key.pem"],
            check=True, capture_output=True, text=True, input=request).stdout
        file.write_text(ending)
        yield ["WaybillCertificateEnds", "WaybillPushCertificateEnds"]
        file.write_text(text)

    def pictures_missing(self):
        file = Path(f"{self.other_brand()}/brand.json")
        text = file.read_text()
        reloaded = f'"brand reloaded","brand":"{OTHER}"'
        before = {service: self.log(service).count(reloaded) for service in PACKAGERS}
        file.write_text(json.dumps(json.loads(text) | {
            "pictures": {"hosts": ["pictures.example.invalid"]},
            "documents": {"hosts": ["receipts.example.invalid"], "brandBytes": 1000}}))
        # Without its host a picture is left out.
        eventually("packagers that know the host", lambda: all(
            self.log(service).count(reloaded) > count for service, count in before.items()))
        keys = [f"{OTHER}/pictured-{number}" for number in range(5)]
        for key in keys:
            merchant = self.document["merchant"] | {"logo": f"https://pictures.example.invalid/{key}.png"}
            label = {"returnIdentifier": "r", "status": "open",
                     "returnLabel": f"https://receipts.example.invalid/{key}.pdf"}
            self.publisher.send_event(
                key, "waybill.order.replaced", self.document | {"merchant": merchant, "returns": [label]})
        # As many bytes as the documents of other orders would have.
        self.stack.redis.ask("HSET", DOCUMENT_BYTES, OTHER, "900")
        yield ["WaybillPicturesWait", "WaybillDocumentsWait", "WaybillDocumentsFull"]
        self.stack.redis.ask("DEL", DOCUMENT_BYTES)
        for key in keys:
            self.publisher.send_event(key, "waybill.order.removed", {})
        file.write_text(text)

    def source_maps_less(self):
        # The rule compares with an hour ago, which is a minute here.
        eventually("records that were mapped a minute ago", lambda: self.prometheus.ask(
            "/query", query="waybill:ingest_mapped:ratio_rate15m offset 1m > 0")["result"], 120)
        (self.carrier / "map.lua").write_text("function map(scan) end")
        yield ["WaybillSourceMapsLess"]
        (self.carrier / "map.lua").write_text(MAP)

    def source_omits(self):
        (self.carrier / "map.lua").write_text(MAP_WITHOUT_LINK)
        yield ["WaybillSourceOmits"]
        (self.carrier / "map.lua").write_text(MAP)

    def waiting_lost(self):
        # The brand is there and cannot be loaded, so its changes wait. The broker keeps 5 MB: about half of them.
        folder = f"{self.stack.env['BRANDS']}/{LATE}"
        os.makedirs(folder)
        Path(f"{folder}/brand.json").write_text("{")
        self.await_packagers(LATE, 1)
        for _ in range(2):
            for number in range(80):
                self.publisher.send_event(f"{LATE}/1", "waybill.order.replaced", self.document | {
                    "orderNumber": f"{number}", "statusDescription": "x" * 60_000})
            self.publisher.flush()
            # Before they are deleted. The first 2 MB are in the packager's memory.
            eventually("changes that wait", lambda: self.packagers_total("waybill_waiting_records") >= 1)
        self.stack.add_brand(LATE)
        yield ["WaybillWaitingRecordsLost"]

    # --- APNs --------------------------------------------------------------------------------------------------------

    def push_refused(self):
        self.fault(status=400, reason="DeviceTokenNotForTopic", probability=0.3)
        yield ["WaybillPushRefused", "WaybillPushDeadLetters"]
        self.heal()

    def push_stopped(self):
        self.fault(status=403, reason="BadCertificate")
        yield ["WaybillPushCredentialStopped"]
        self.heal()

    def push_ill(self):
        self.fault(status=503, reason="ServiceUnavailable")
        began = time.monotonic()
        self.change_all()
        yield ["WaybillPushCredentialIll", "WaybillPushPending"]
        time.sleep(max(0, began + 35 - time.monotonic()))
        self.heal()
        yield ["WaybillNotificationsLate", "WaybillNotificationsLateSlowly"]

    def push_tokens_unknown(self):
        self.fault(status=400, reason="BadDeviceToken", probability=0.5)
        yield ["WaybillPushBreakerOpen"]
        self.heal()
        # A breaker closes after ten quiet minutes; a new pusher has a new one.
        for service in PUSHERS:
            self.stack.restart(service)

    def push_unreachable(self):
        self.fault(dropConnects=True)
        self.fault(cut=True, now=True)
        yield ["WaybillPushNoConnection"]
        self.heal()

    def push_slow(self):
        self.fault(maxConcurrentStreams=1)
        self.fault(delayMilliseconds=8000)
        yield ["WaybillPushQueueOld"]
        self.heal()

    def push_flaps(self):
        self.fault(goaway={"reason": "Shutdown", "processed": False}, count=3)
        with self.repeated(lambda: self.fault(cut=True, now=True), 1):
            yield ["WaybillPushConnectionsFlap"]
        self.heal()


SCENES = {name: function for name, function in vars(Scenes).items() if inspect.isgeneratorfunction(function)}
