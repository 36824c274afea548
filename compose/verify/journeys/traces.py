"""Changes with a trace are followed from their publisher to the device, or to the dead letter."""

import http.server
import json
import subprocess
import threading
from pathlib import Path

from metrics import Metrics
from stack import ROOT, Failure, derived_token, eventually, say
from topics import Publisher, Reader
from world import Client, Device, World

TOPICS = ("waybill.orders", "waybill.push-pending", "waybill.dead-letters", "waybill.registrations")
SERVICES = ("packager", "pusher", "gateway")


class Collector:
    """A collector of traces: OTLP over HTTP. bodies: of the requests, as texts. Threads: any."""

    def __init__(self):
        self.bodies = bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                is_wanted = self.path == "/v1/traces" and self.headers["content-type"] == "application/json"
                if is_wanted:
                    bodies.append(body)
                self.send_response(200 if is_wanted else 400)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        """Closes the port: whoever connects is refused."""
        self.server.shutdown()
        self.server.server_close()

    def spans(self):
        """Returns all spans, each with the service that made it."""
        return [
            span | {"service": resource["resource"]["attributes"][0]["value"]["stringValue"]}
            for body in list(self.bodies) for resource in json.loads(body)["resourceSpans"]
            for scope in resource["scopeSpans"] for span in scope["spans"]]


class Trace:
    """A trace that a publisher began. number: from 1."""

    def __init__(self, number):
        self.id, self.span = f"{number:08x}{'5' * 24}", f"{number:016x}"
        self.parent = f"00-{self.id}-{self.span}-01"


def linked(span):
    """Returns the identifiers of a span's links, or of its parent alone."""
    return [link["spanId"] for link in span.get("links", [])] or [span["parentSpanId"]]


class Traces(World):
    """Publishes changes with known traces, and searches for them everywhere."""

    collector = None

    @classmethod
    def environment(cls):
        cls.collector = Collector()
        return {"WAYBILL_TRACES_URL": cls.collector.url}

    def travel(self):
        # Changes that are put together are one batch of the producer, which a consumer gets together.
        self.publisher = Publisher(self.stack, {"partitioner": "murmur2_random", "linger.ms": 500})
        self.publisher.connect()
        self.reader = Reader(self.stack.env["KAFKA_BOOTSTRAP"])
        self.devices = [Device(number, f"{self.type}/traced-{number}") for number in range(3)]
        for device in self.devices:
            device.token = derived_token(self.secret, device.key)
        self.publisher.replace_all({device.identifier: self.document for device in self.devices})
        for device in self.devices:
            if device.register(self.client) != 201:
                self.findings.add(f"{device.key}: its device is not registered")
        # A device that registers soon after a change is notified of it.
        self.require_told(self.devices, 0)
        self.one_change(Trace(1))
        self.five_changes([Trace(number) for number in range(11, 16)])
        self.dead_letter(Trace(21))
        self.fetch(Trace(31))
        self.parse_spans()
        self.without_collector(Trace(41))
        self.reader.close()

    def publish(self, device, kind, data, *traces):
        """Publishes a change for each trace, all together."""
        for trace in traces:
            self.publisher.send_event(device.key, f"waybill.order.{kind}", data(trace), traceparent=trace.parent)
        self.publisher.flush()

    def require_told(self, devices, first):
        for device in self.untold(devices, first, 30):
            self.findings.add(f"the device of {device.key} is not told")

    def search(self, trace):
        """Returns the places that have the trace: `log SERVICE`, topics, and `span NAME`."""
        places = {f"log {service}" for service in SERVICES if trace.id in self.log(service)}
        for topic in TOPICS:
            found = [message for message in self.reader.messages(topic) if trace.id in str(message.headers())]
            places |= {topic} if found else set()
        return places | {f"span {span['name']}" for span in self.collector.spans() if trace.id in json.dumps(span)}

    def require(self, what, trace, places):
        """Requires that a search for the trace finds it in these places within some seconds, and in no other."""
        found = set()

        def is_found():
            found.clear()
            found.update(self.search(trace))
            return found >= places

        self.findings.phase = what
        try:
            eventually(what, is_found, 10, pause=0.2)
        except Failure:
            self.findings.add(f"the trace is not in {sorted(places - found)}")
        say(f"{what}: {', '.join(sorted(found))}")
        if found - places:
            self.findings.add(f"the trace is also in {sorted(found - places)}")
        self.findings.saw("traces found")

    def spans_of(self, trace, name):
        return [span for span in self.collector.spans() if span["name"] == name and trace.id in json.dumps(span)]

    def one_change(self, trace):
        first = len(self.simulator.deliveries)
        self.publish(self.devices[0], "patched", lambda _: {"orderNumber": "1"}, trace)
        self.require_told(self.devices[:1], first)
        self.require("a change", trace, {"waybill.orders", "span waybill.package", "span waybill.notify"})
        for name, service in (("waybill.package", "waybill-packager"), ("waybill.notify", "waybill-pusher")):
            spans = self.spans_of(trace, name)
            if [(span["service"], linked(span)) for span in spans] != [(service, [trace.span])]:
                self.findings.add(f"{name} is {spans}")

    def five_changes(self, traces):
        first = len(self.simulator.deliveries)
        self.publish(self.devices[1], "patched", lambda trace: {"orderNumber": trace.span}, *traces)
        self.require_told(self.devices[1:2], first)
        for trace in traces:
            self.require("one of five changes", trace, {
                "waybill.orders", "span waybill.package", "span waybill.notify"})
        newest_first = [trace.span for trace in reversed(traces)]
        for name in ("waybill.package", "waybill.notify"):
            if (links := [linked(span) for span in self.spans_of(traces[0], name)]) != [newest_first]:
                self.findings.add(f"{name} of five changes has the links {links}")

    def dead_letter(self, trace):
        self.publish(self.devices[2], "renamed", lambda _: {}, trace)
        self.require("a dead letter", trace, {"waybill.dead-letters", "log packager", "span waybill.dead_letter"})

    def fetch(self, trace):
        """Fetches an order with the header of a trace, without one, and with one that is not sampled."""
        client, before = Client(self.stack.gateway_port), len(self.collector.spans())
        for parent in (None, f"{trace.parent[:-2]}00", trace.parent):
            headers = [("authorization", f"AppleOrder {self.devices[0].token}")]
            headers += [("traceparent", parent)] if parent else []
            status = client.ask("GET", f"/v1/orders/{self.devices[0].key}", headers).status
            if status != 200:
                self.findings.add(f"a fetch with the trace {parent} is answered {status}")
        client.close()
        self.require("a fetch", trace, {"span waybill.fetch"})
        if (number := len(self.collector.spans()) - before) != 1:
            self.findings.add(f"three fetches make {number} spans")

    def parse_spans(self):
        """Parses all spans with the types of OTLP."""
        self.findings.phase = "the types of OTLP"
        files = []
        for number, body in enumerate(self.collector.bodies):
            files.append(f"{self.stack.folder}/spans-{number}.json")
            Path(files[-1]).write_text(body)
        self.findings.saw("spans", len(self.collector.spans()))
        if subprocess.run([f"{ROOT}/compose/prepare", "check"]).returncode:
            say("NOT CHECKED, since programs of PyPI are missing: the spans with the types of OTLP")
            return
        check = subprocess.run(
            [f"{ROOT}/.build/check/bin/python", "-B", f"{ROOT}/compose/verify/checks/spans.py", *files],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if check.returncode:
            self.findings.add(check.stdout)

    def without_collector(self, trace):
        """A collector that is away costs nothing but its spans."""
        self.findings.phase = "without a collector"
        self.collector.stop()
        first, letters = len(self.simulator.deliveries), len(self.reader.messages("waybill.dead-letters"))
        self.publish(self.devices[0], "patched", lambda _: {"orderNumber": "2"}, trace)
        self.require_told(self.devices[:1], first)
        operations = [self.stack.env[f"OPERATIONS_{service.upper()}"] for service in ("packager", "pusher")]
        eventually("counting the spans that are dropped", lambda: all(
            Metrics.of(url).total("waybill_spans_dropped_total") for url in operations))
        for service in SERVICES:
            for path in ("livez", "readyz"):
                if (status := self.probe(service, path)[0]) != 200:
                    self.findings.add(f"/{path} of {service} is {status}")
            if (lines := self.log(service).count("spans are dropped")) != (service != "gateway"):
                self.findings.add(f"{service} writes {lines} lines about the collector")
        if len(self.reader.messages("waybill.dead-letters")) != letters:
            self.findings.add("there are more dead letters")
