"""
A packager in Python, written in the usual way with the usual packages; started by bench.py of this folder.

It does what waybill-packager does with a backlog: consume, read the orders' states, fold, build order.json and
manifest, sign, zip, write to Redis, publish, commit. It processes ranges of offsets of some partitions, and prints as
JSON the number of packages and the seconds of its CPU and of the clock; importing and loading are not counted.
"""

import hashlib
import io
import json
import sys
import time
import zipfile
from datetime import datetime, timezone
from pathlib import Path

import confluent_kafka
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import pkcs7

BATCH = 1000
FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class Brand:
    def __init__(self, folder, order_type, web_service_url):
        folder = Path(folder)
        self.certificate = x509.load_pem_x509_certificate((folder / "certificate.pem").read_bytes())
        self.intermediate = x509.load_pem_x509_certificate((folder / "intermediate.pem").read_bytes())
        self.key = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), None)
        self.order_type, self.web_service_url = order_type, web_service_url
        self.folder, self.assets = folder / "assets", {}

    def asset(self, name):
        """Returns a picture's content and digest, read once."""
        if name not in self.assets:
            content = (self.folder / name).read_bytes()
            self.assets[name] = (content, hashlib.sha256(content).hexdigest())
        return self.assets[name]

    def package(self, order, document, updated):
        content = document | {
            "schemaVersion": 2 if "orderProvider" in document else 1, "orderType": "ecommerce",
            "orderTypeIdentifier": self.order_type,
            "orderIdentifier": order, "webServiceURL": self.web_service_url, "updatedAt": updated,
            "authenticationToken": hashlib.sha256(order.encode()).hexdigest()[:32],
        }
        content = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        pictures = sorted(set(files(document)))
        digests = {"order.json": hashlib.sha256(content).hexdigest()}
        digests |= {name: self.asset(name)[1] for name in pictures}
        manifest = json.dumps(digests, sort_keys=True, separators=(",", ":")).encode()
        builder = pkcs7.PKCS7SignatureBuilder().set_data(manifest)
        builder = builder.add_signer(self.certificate, self.key, hashes.SHA256()).add_certificate(self.intermediate)
        # With signed attributes, of which the signing time is one.
        signature = builder.sign(serialization.Encoding.DER, [
            pkcs7.PKCS7Options.DetachedSignature, pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoCapabilities,
        ])
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("order.json", content)
            archive.writestr("manifest.json", manifest)
            archive.writestr("signature", signature, zipfile.ZIP_STORED)
            for name in pictures:
                archive.writestr(name, self.asset(name)[0], zipfile.ZIP_STORED)
        return file.getvalue(), hashlib.sha256(manifest).hexdigest()


def files(value):
    """Yields the pictures that a document names."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("logo", "image") or key.startswith("trackingLogoName"):
                yield item
            else:
                yield from files(item)
    elif isinstance(value, list):
        for item in value:
            yield from files(item)


def merge(target, patch):
    """Applies a merge patch. Source: RFC 7396 §2"""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


class Packager:
    def __init__(self, settings):
        self.brand = Brand(settings["brand"], settings["order_type"], settings["web_service_url"])
        self.redis = redis.Redis(port=settings["redis_port"], db=settings["redis_database"])
        servers = {"bootstrap.servers": settings["bootstrap"]}
        self.producer = confluent_kafka.Producer(servers | {"linger.ms": 2})
        self.consumer = confluent_kafka.Consumer(
            servers | {"group.id": "bench-python", "enable.auto.commit": False})
        self.topic = settings["topic"]
        # Partition -> (first offset, offset after the last).
        self.ranges = {int(number): tuple(offsets) for number, offsets in settings["ranges"].items()}
        self.consumer.assign([
            confluent_kafka.TopicPartition(self.topic, number, first) for number, (first, _) in self.ranges.items()])
        self.left = sum(end - first for first, end in self.ranges.values())
        self.made = 0

    def run(self):
        wall, cpu = time.monotonic(), time.process_time()
        while self.left > 0:
            messages = self.consumer.consume(BATCH, timeout=0.1)
            taken = [m for m in messages if not m.error() and m.offset() < self.ranges[m.partition()][1]]
            if taken:
                self.left -= len(taken)
                self.process(taken)
        return {"packages": self.made, "cpu": time.process_time() - cpu, "wall": time.monotonic() - wall}

    def process(self, messages):
        changes, offsets = {}, {}
        for message in messages:
            changes.setdefault(message.key().decode(), []).append(json.loads(message.value()))
            offsets[message.partition()] = message.offset() + 1
        keys = list(changes)
        pipeline = self.redis.pipeline(transaction=False)
        for key in keys:
            pipeline.hmget(f"bench-python:{{{key}}}", "document", "version")
        stored = pipeline.execute()
        for key, (document, version) in zip(keys, stored):
            state = old = json.loads(document) if document else None
            for change in changes[key]:
                data = change["data"]
                state = data if change["type"] == "waybill.order.replaced" else merge(state, data)
            if state != old:
                self.write(pipeline, key, state, int(version or 0) + 1)
        pipeline.execute()
        if self.producer.flush(30):
            raise RuntimeError("publishing versions: no answer in 30 s")
        self.consumer.commit(asynchronous=False, offsets=[
            confluent_kafka.TopicPartition(self.topic, number, offset) for number, offset in offsets.items()])

    def write(self, pipeline, key, document, version):
        updated = datetime.now(timezone.utc).strftime(FORMAT)
        package, tag = self.brand.package(key.split("/")[1], document, updated)
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        fields = {"document": text, "version": version, "modified": updated, "etag": tag, "package": package}
        pipeline.hset(f"bench-python:{{{key}}}", mapping=fields)
        record = {"document": document, "version": version, "modified": updated, "entityTag": tag}
        self.producer.produce("bench-python.orders", key=key, value=json.dumps(record, separators=(",", ":")))
        self.producer.poll(0)
        self.made += 1


def main():
    packager = Packager(json.load(sys.stdin))
    print(json.dumps(packager.run()), flush=True)


main()
