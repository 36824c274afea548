"""An HTTP/2 client for many threads, which goes on with another connection after GOAWAY, as browsers and proxies do."""

import select
import socket
import ssl
import threading

from client import Response
from world import Unanswered

# Debian's python3-h2.
from h2.config import H2Configuration
from h2.connection import ConnectionInputs, ConnectionState, H2Connection, H2ConnectionStateMachine
from h2.exceptions import ProtocolError
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset

# The most seconds that a request waits for its answer.
PATIENCE = 15

# After GOAWAY the streams up to the last one go on (RFC 9113 §6.8). The package would refuse their frames.
H2ConnectionStateMachine._transitions[ConnectionState.CLIENT_OPEN, ConnectionInputs.RECV_GOAWAY] = (
    None, ConnectionState.CLIENT_OPEN)


def secured(opened, protocol):
    """Returns the TLS session of a connection to this machine, whose certificate is not looked at."""
    # Not the default context, which reads the system's roots each time.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context.wrap_socket(opened, server_hostname="localhost")


class Refused(Exception):
    """The server did not process the request and says so: it may be sent again (RFC 9113 §8.7)."""


class Stream:
    def __init__(self):
        self.status, self.body, self.error, self.is_over = 0, b"", None, threading.Event()

    def end(self, error=None):
        self.error = self.error or error
        self.is_over.set()


class Multiplex:
    """One connection, from which a thread reads. Threads: any."""

    def __init__(self, port, is_secure):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_secure:
            self.socket = secured(self.socket, "h2")
        # Guards all below, the socket too: a TLS session is not for two threads at a time. A thread that sends holds it, so it must never wait for an answer with it.
        self.lock, self.streams, self.is_ending = threading.Lock(), {}, False
        self.http = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.http.initiate_connection()
        self.flush()
        threading.Thread(target=self.read, daemon=True).start()

    def flush(self):
        if data := self.http.data_to_send():
            self.socket.settimeout(PATIENCE)
            self.socket.sendall(data)

    def receive(self):
        """Takes what has arrived. Returns False at the end of the connection."""
        self.socket.settimeout(0)
        while True:
            try:
                data = self.socket.recv(1 << 16)
            except (BlockingIOError, ssl.SSLWantReadError):
                return True
            if not data:
                return False
            for event in self.http.receive_data(data):
                self.take(event)

    def begin(self, method, path, headers, body):
        """Sends a request; None if the connection takes no more."""
        lines = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path), *headers]
        with self.lock:
            if self.is_ending:
                return None
            number, stream = self.http.get_next_available_stream_id(), Stream()
            self.streams[number] = stream
            if body is not None:
                lines.append(("content-type", "application/json"))
            self.http.send_headers(number, lines, end_stream=body is None)
            if body is not None:
                self.http.send_data(number, body.encode(), end_stream=True)
            try:
                self.flush()
            except OSError as error:
                stream.end(Unanswered(str(error)))
            return stream

    def read(self):
        reason, is_open = "the server closed the connection", True
        try:
            while is_open:
                select.select([self.socket], [], [])
                with self.lock:
                    is_open = self.receive() and not (self.is_ending and not self.streams)
                    self.flush()
        except (OSError, ProtocolError) as error:
            reason = str(error)
        with self.lock:
            self.is_ending = True
            for stream in self.streams.values():
                stream.end(Unanswered(reason))
        self.socket.close()

    def take(self, event):
        if isinstance(event, ConnectionTerminated):
            self.is_ending = True
            for number in [number for number in self.streams if number > event.last_stream_id]:
                self.streams.pop(number).end(Refused())
            return
        if not (stream := self.streams.get(getattr(event, "stream_id", None))):
            return
        if isinstance(event, ResponseReceived):
            stream.status = int(dict(event.headers)[":status"])
        elif isinstance(event, DataReceived):
            stream.body += event.data
            self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self.streams.pop(event.stream_id).end()
        elif isinstance(event, StreamReset):
            self.streams.pop(event.stream_id).end(
                Refused() if event.error_code == 7 else Unanswered(f"reset with code {event.error_code}"))


class MultiplexedClient:
    """Sends each request on the present connection, and opens another one when that ends. Threads: any."""

    def __init__(self, port, is_secure=False):
        self.port, self.is_secure, self.lock, self.connection = port, is_secure, threading.Lock(), None

    def ask(self, method, path, headers=(), body=None):
        while True:
            stream = self.present().begin(method, path, headers, body)
            if stream is None:
                continue
            if not stream.is_over.wait(PATIENCE):
                raise Unanswered(f"no answer within {PATIENCE} s")
            if isinstance(stream.error, Unanswered):
                raise stream.error
            if stream.error is None:
                return Response(stream.status, {}, stream.body)

    def present(self):
        with self.lock:
            if self.connection is None or self.connection.is_ending:
                try:
                    self.connection = Multiplex(self.port, self.is_secure)
                except OSError as error:
                    raise Unanswered(str(error)) from error
            return self.connection
