"""A proxy that delays all answers of a server."""

import asyncio
import contextlib
import os
import sys
import time

from processes import Program, free_ports, listens

# The most pieces held back per connection and direction; then the sender has to wait.
PIECES = 4096


@contextlib.contextmanager
def proxy(stack, seconds):
    """Yields a port that leads to a stack's Redis. It runs in its own process, which no other work slows down."""
    port = free_ports(1)[0]
    program = Program(
        [sys.executable, "-B", os.path.abspath(__file__), str(port), str(stack.redis_port), str(seconds)],
        f"{stack.folder}/log/slow-proxy.log")
    try:
        program.await_ready(lambda: listens(port))
        yield port
    finally:
        program.stop()


async def take(reader, pieces):
    while data := await reader.read(1 << 16):
        await pieces.put((time.monotonic(), data))
    await pieces.put((0, b""))


async def give(pieces, writer, seconds):
    while True:
        moment, data = await pieces.get()
        if not data:
            return writer.close()
        await asyncio.sleep(max(0, moment + seconds - time.monotonic()))
        writer.write(data)
        await writer.drain()


async def serve(listen, port, seconds):
    async def connected(reader, writer):
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        asked, answered = asyncio.Queue(PIECES), asyncio.Queue(PIECES)
        with contextlib.suppress(OSError):
            await asyncio.gather(
                take(reader, asked), give(asked, server_writer, 0),
                take(server_reader, answered), give(answered, writer, seconds))

    server = await asyncio.start_server(connected, "127.0.0.1", listen)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
