"""New orders that name a picture and a receipt of their own, beside orders that name none."""

import json
import os
import time
from pathlib import Path

from latency import steadily
from nginx import start_nginx
from orders import add_picture
from processes import free_ports, output_of
from report import percentile
from stack import eventually
from subject import PROMPT_FETCHES
from topics import ORDERS
from workers import CrewBench

ORDERS_A_SECOND = 300
# It needs no name server.
HOST = "localhost"
RECEIPT_BYTES = 20_000
NGINX = """
user @USER@;
daemon off;
pid @DIR@/nginx.pid;
error_log @DIR@/nginx.log warn;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path @DIR@/nginx-body;
    proxy_temp_path @DIR@/nginx-proxy;
    fastcgi_temp_path @DIR@/nginx-fastcgi;
    uwsgi_temp_path @DIR@/nginx-uwsgi;
    scgi_temp_path @DIR@/nginx-scgi;
    server {
        listen 127.0.0.1:@PORT@ ssl;
        ssl_certificate @DIR@/certificate.pem;
        ssl_certificate_key @DIR@/key.pem;
        root @DIR@/files;
        location /receipts/ { default_type application/pdf; rewrite ^ /receipt.pdf break; }
        location /pictures/ { default_type image/png; rewrite ^ /picture.png break; }
    }
}
"""


class DocumentsBench(CrewBench):
    def measure(self):
        self.port = free_ports(1)[0]
        self.allow_host()
        self.start_server()
        redis = self.stack.redis
        self.crew.start(settings={
            "WAYBILL_PICTURE_ROOTS": f"{self.folder}/certificate.pem",
            "WAYBILL_DEVELOPMENT_PICTURE_ADDRESSES": "127.0.0.1"})
        count = ORDERS_A_SECOND * self.arguments.seconds
        # The first orders of a packager bring it to its speed.
        self.waits([self.documents.next() for _ in range(count // 4)])
        begin = redis.used_memory()
        plain = self.waits([self.documents.next() for _ in range(count)])
        middle = redis.used_memory()
        waits = self.waits([self.dressed(*self.documents.next()) for _ in range(count)])
        began = time.monotonic()
        eventually("all pictures and receipts", lambda: self.arrived() >= 2 * count, 180, 0.1)
        self.crew.await_done()
        bytes_each = (redis.used_memory() - middle - (middle - begin)) / count
        before = percentile(plain, 0.99)
        self.report.figure("documents.p50_ms", percentile(waits, 0.5), note=f"{percentile(plain, 0.5):.1f} without")
        self.report.figure("documents.p99_ms", percentile(waits, 0.99), most=max(1.5 * before, before + 5), note=(
            f"{count} orders at {ORDERS_A_SECOND} a second, at most {max(waits):.0f} ms; {before:.1f} without"))
        self.report.figure("documents.kb_per_order", bytes_each / 1000, note=(
            f"Redis beside an order without; a receipt has {self.receipt / 1000:.1f} kB, a picture "
            f"{self.picture / 1000:.1f} kB"))
        self.report.note(f"all files had arrived {time.monotonic() - began:.1f} s after the last order")

    def set_up(self):
        super().set_up(kafka_properties=PROMPT_FETCHES)

    def allow_host(self):
        file = Path(f"{self.stack.brand}/brand.json")
        hosts = {"hosts": [f"{HOST}:{self.port}"]}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"pictures": hosts, "documents": hosts}))

    def start_server(self):
        files = Path(f"{self.folder}/files")
        (files / "assets").mkdir(parents=True)
        add_picture(files, "picture.png")
        (files / "assets/picture.png").rename(files / "picture.png")
        (files / "receipt.pdf").write_bytes(b"%PDF-1.4\n%" + os.urandom(RECEIPT_BYTES) + b"\n%%EOF\n")
        self.picture, self.receipt = ((files / name).stat().st_size for name in ("picture.png", "receipt.pdf"))
        output_of([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=files", "-addext", f"subjectAltName=DNS:{HOST}", "-keyout", f"{self.folder}/key.pem", "-out",
            f"{self.folder}/certificate.pem"])
        nginx = start_nginx(self.folder, NGINX, {"PORT": self.port}, [self.port])
        self.ending.callback(nginx.stop)

    def dressed(self, order, document):
        """Returns an order with a receipt and a picture that no other order names."""
        base = f"https://{HOST}:{self.port}"
        items = [dict(item) for item in document["lineItems"]] if document.get("lineItems") else [
            {"title": "Product", "quantity": 1}]
        items[0]["image"] = f"{base}/pictures/{order}.png"
        payment = document.get("payment", {"total": {"amount": "10.00", "currency": "EUR"}})
        paid = {
            "transactionType": "purchase", "status": "completed", "createdAt": "2026-01-01T00:00:00Z",
            "amount": payment["total"], "paymentMethod": {"displayName": "Card"},
            "receipt": f"{base}/receipts/{order}.pdf"}
        payment = payment | {"transactions": [paid]}
        return order, document | {"lineItems": items, "payment": payment}

    def waits(self, made):
        """Returns the milliseconds from the publication of each order to its first version in `waybill.orders`."""
        documents, sent = dict(made), {}
        self.crew.publish(
            ((order, "replaced", documents[order]) for order in steadily(list(documents), ORDERS_A_SECOND, sent)),
            {"linger.ms": 0})
        self.crew.await_done()
        first = {}
        for message in self.crew.reader.messages(ORDERS):
            first.setdefault(message.key().decode().split("/", 1)[1], message.timestamp()[1])
        return [first[order] - sent[order] / 1e6 for order in documents]

    def arrived(self):
        return sum(map(self.crew.counter, ("waybill_own_documents_fetched_total", "waybill_pictures_fetched_total")))
