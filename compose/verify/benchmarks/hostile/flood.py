"""
Hostile clients of a gateway on this machine, until SIGTERM; then one line of JSON counts requests and answers.

One thread writes batches of requests and counts the answers, so that it costs less than the work it causes. It
connects to 127.0.0.1 only, from twenty addresses, each in a different network. All connections of an address write at
the same moment, ten times a second; the addresses take turns, since separate machines would not be in step.
"""

import collections
import errno
import json
import os
import random
import re
import resource
import select
import signal
import socket
import sys
import time

ADDRESSES = [f"127.{10 + number}.0.2" for number in range(20)]
# Seconds of a tick, in which two addresses write, and the number of ticks until they write again.
TICK, TURNS = 0.01, 10
# Requests in a batch on one connection; each address has one connection for each of these kinds.
WRONG_TOKENS, LISTS, REGISTRATIONS = 10, 10, 3
# Bytes of the body of a pipelined request, and such requests in a batch: 12 MB a second from all addresses.
BODY, BODIES = 60_000, 1
# Connections of an address that send one byte of a header a second, and connections that send nothing.
SLOW, IDLE = 50, 900
# The most connections opened in a tick; later ones were closed by the gateway before.
OPENED = 4
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")


class Peer:
    """One hostile connection."""

    def __init__(self, kind, address, number):
        # number: counts the address's connections of this kind.
        self.kind, self.address, self.number, self.socket, self.unsent = kind, address, number, None, b""

    def open(self, port):
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.bind((self.address, 0))
        code = self.socket.connect_ex(("127.0.0.1", port))
        if code not in (0, errno.EINPROGRESS):
            self.close()
            return False
        self.unsent = self.kind.opening
        return True

    def close(self):
        self.socket.close()
        self.socket = None

    def send(self, data):
        """Sends what the gateway takes; the rest is sent later, before other data. Returns the number of bytes sent."""
        self.unsent += data
        try:
            sent = self.socket.send(self.unsent)
        except (BlockingIOError, InterruptedError):
            return 0
        self.unsent = self.unsent[sent:]
        return sent


class Kind:
    """Connections that behave alike, and their counts."""

    def __init__(self, name, count, batch, opening=b"", addresses=ADDRESSES):
        # batch: returns the bytes for a connection in a tick and the number of requests in them; opening: sent first.
        self.name, self.batch, self.opening = name, batch, opening
        # The connections that write in the same tick, for each of TURNS ticks.
        self.turns = [
            [Peer(self, address, number) for address in addresses[turn::TURNS] for number in range(count)]
            for turn in range(TURNS)]
        self.peers = [peer for peers in self.turns for peer in peers]
        self.sent, self.bytes, self.closed, self.answers = 0, 0, 0, collections.Counter()

    def told(self):
        return {
            "sent": self.sent, "megabytes": self.bytes / 1e6, "closed": self.closed, "answers": self.answers,
            "open": sum(peer.socket is not None for peer in self.peers),
        }


class Flood:
    def __init__(self, port, files):
        self.port, self.files, self.kinds = port, files, []
        self.random = random.Random(1)
        self.tick = 0
        self.poll = select.epoll()
        self.open = {}

    def mixed(self, order_type, token):
        self.type, self.token = order_type, token
        pipelined = b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%s" % (BODY, b"x" * BODY)
        # Each batch ends with the first byte of the next, so a request is always unfinished.
        self.pipelined = pipelined[1:] + pipelined[:1]
        self.kinds = [
            Kind("wrong tokens", 1, self.wrong_tokens), Kind("lists of changes", 1, self.lists),
            Kind("registrations", 1, self.registrations), Kind("pipelined bodies", 1, self.bodies, b"P"),
            Kind("slow", SLOW, self.slow, b"GET /x HTTP/1.1\r\nhost: a\r\nx: "),
            Kind("idle", min(IDLE, self.files // len(ADDRESSES) - 2 * SLOW), None),
        ]

    def unfinished(self, addresses, count, head):
        """Bodies that lack some bytes: all that was sent is kept until they come."""
        opening = f"{head}content-length: {BODY}\r\n\r\n".encode() + b" " * (BODY - 10_000)
        self.kinds = [Kind("bodies", int(count), self.nothing, opening, ADDRESSES[:int(addresses)])]

    def queue(self):
        # The next one is on the right: first those that send requests, later the one closed longest ago.
        self.closed = collections.deque(peer for kind in reversed(self.kinds) for peer in kind.peers)

    # --- requests ---------------------------------------------------------------------------------------------------

    def request(self, method, path, lines="", body=""):
        return f"{method} {path} HTTP/1.1\r\nhost: a\r\n{lines}content-length: {len(body)}\r\n\r\n{body}"

    def joined(self, requests):
        return "".join(requests).encode(), len(requests)

    def hexadecimal(self):
        return f"{self.random.getrandbits(128):032x}"

    def wrong_tokens(self, peer):
        return self.joined([
            self.request(
                "GET", f"/v1/orders/{self.type}/bench-{self.random.randrange(200)}",
                f"authorization: AppleOrder {self.hexadecimal()}\r\n")
            for _ in range(WRONG_TOKENS)])

    def lists(self, peer):
        return self.joined([
            self.request("GET", f"/v1/devices/{self.hexadecimal()}/registrations/{self.type}") for _ in range(LISTS)])

    def registrations(self, peer):
        """Returns registrations of made-up devices for an order whose token is right."""
        return self.joined([
            self.request(
                "POST", f"/v1/devices/{self.hexadecimal()}/registrations/{self.type}/bench-1",
                f"authorization: AppleOrder {self.token}\r\n", f'{{"pushToken":"{self.hexadecimal()}"}}')
            for _ in range(REGISTRATIONS)])

    def bodies(self, peer):
        return self.pipelined * BODIES, BODIES

    def nothing(self, peer):
        return b"", 0

    def slow(self, peer):
        """Returns one byte in every tenth turn."""
        return (b"y" if self.tick // TURNS % 10 == peer.number % 10 else b""), 0

    # --- sockets ------------------------------------------------------------------------------------------------------

    def run(self):
        self.queue()
        began = time.monotonic()
        while True:
            self.connect()
            for kind in self.kinds:
                if kind.batch:
                    self.write(kind)
            self.tick += 1
            due = began + self.tick * TICK
            # Delays are not made up for: that would be a burst.
            began += max(0, time.monotonic() - due)
            self.read(began + self.tick * TICK)

    def connect(self):
        for _ in range(min(OPENED, len(self.closed))):
            peer = self.closed.pop()
            if not peer.open(self.port):
                self.closed.appendleft(peer)
                return
            self.open[peer.socket.fileno()] = peer
            self.poll.register(peer.socket.fileno(), select.EPOLLIN | select.EPOLLRDHUP)

    def write(self, kind):
        for peer in kind.turns[self.tick % TURNS]:
            # A connection from which the gateway does not read gets no further batches.
            if not peer.socket or (peer.unsent and len(peer.unsent) > BODY):
                continue
            data, count = kind.batch(peer)
            if not data and not peer.unsent:
                continue
            try:
                kind.bytes += peer.send(data)
                kind.sent += count
            except OSError:
                self.drop(peer)

    def read(self, until):
        while (rest := until - time.monotonic()) > 0:
            for number, _ in self.poll.poll(rest, 512):
                peer = self.open[number]
                try:
                    data = peer.socket.recv(1 << 16)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                peer.kind.answers.update(status.decode() for status in STATUS.findall(data))
                if not data:
                    self.drop(peer)

    def drop(self, peer):
        peer.kind.closed += 1
        self.poll.unregister(peer.socket.fileno())
        del self.open[peer.socket.fileno()]
        peer.close()
        self.closed.appendleft(peer)


def main(port, kind, *words):
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    flood = Flood(int(port), files)
    {"mixed": flood.mixed, "bodies": flood.unfinished}[kind](*words)

    def stop(*_):
        print(json.dumps({kind.name: kind.told() for kind in flood.kinds}), flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    flood.run()


main(*sys.argv[1:])
