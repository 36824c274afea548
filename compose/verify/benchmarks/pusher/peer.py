"""
Sends notifications with the usual Python packages, on one connection; started by bench.py of this folder.

Reads its job as JSON from standard input. Prints as JSON the seconds, its CPU seconds and the number of notifications
that were accepted.
"""

import asyncio
import json
import socket
import ssl
import sys
import time
import uuid

STREAMS = 100
HERE = "127.0.0.1"


def only_here(find):
    """Limits a resolver to this machine: the packages know Apple's hosts, to which a benchmark must never send."""
    def guarded(host, *arguments, **options):
        if host not in (HERE, HERE.encode()):
            raise OSError("nothing may be sent to another machine")
        return find(host, *arguments, **options)
    return guarded


class AioAPNs:
    def __init__(self, job, context):
        import aioapns
        from aioapns.connection import APNsProductionClientProtocol

        class Protocol(APNsProductionClientProtocol):
            APNS_SERVER, APNS_PORT = HERE, job["port"]

            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                receive = self.conn.receive_data
                self.conn.receive_data = lambda data: [event for event in receive(data) if self.is_usual(event)]

            def is_usual(self, event):
                """Adds the `apns-id` that nghttpd, unlike APNs, does not send. Returns false for its empty bodies."""
                kind = type(event).__name__
                if kind == "ResponseReceived":
                    identifier = self.request_streams.pop(event.stream_id).encode()
                    event.headers = [*event.headers, (b"apns-id", identifier)]
                return kind != "DataReceived" or event.data

        with open(job["key"]) as file:
            key = file.read()
        self.client = aioapns.APNs(
            key=key, key_id="LOADTEST00", team_id="LOADTEST01", topic=job["topic"], max_connections=1,
            ssl_context=context)
        self.client.pool.protocol_class = Protocol
        self.request = lambda device: aioapns.NotificationRequest(
            device_token=device, message={}, priority=5, time_to_live=604800, push_type=aioapns.PushType.BACKGROUND)

    async def send(self, device):
        return (await self.client.send_notification(self.request(device))).is_successful

    async def close(self):
        self.client.pool.close()


class Httpx:
    def __init__(self, job, context):
        import httpx
        self.client = httpx.AsyncClient(
            http1=False, http2=True, verify=context, limits=httpx.Limits(max_connections=1),
            base_url=f"https://{HERE}:{job['port']}", timeout=30)
        self.headers = {
            "authorization": job["authorization"], "apns-topic": job["topic"], "apns-push-type": "background",
            "apns-priority": "5",
        }

    async def send(self, device):
        headers = self.headers | {
            "apns-expiration": str(int(time.time()) + 604800), "apns-id": str(uuid.uuid4())}
        return (await self.client.post(f"/3/device/{device}", headers=headers, content=b"{}")).status_code == 200

    async def close(self):
        await self.client.aclose()


async def run(job):
    context = ssl.create_default_context(cafile=job["roots"])
    context.set_alpn_protocols(["h2"])
    sender = {"aioapns": AioAPNs, "httpx": Httpx}[job["package"]](job, context)
    devices = job["devices"]
    # Connecting is not measured.
    if not await sender.send(devices[0]):
        raise RuntimeError("the first notification was not accepted")
    numbers = iter(range(job["notifications"]))
    delivered = 0

    async def stream():
        nonlocal delivered
        for number in numbers:
            # Not in one statement: `delivered` would be read before the wait.
            taken = await sender.send(devices[number % len(devices)])
            delivered += taken

    wall, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(stream() for _ in range(STREAMS)))
    told = {"seconds": time.monotonic() - wall, "cpu": time.process_time() - cpu, "delivered": delivered}
    await sender.close()
    return told


def main():
    socket.getaddrinfo = only_here(socket.getaddrinfo)
    print(json.dumps(asyncio.run(run(json.load(sys.stdin)))), flush=True)


main()
