"""A server that answers late: whatever it says is held back for some time, however much of it there is."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time

from peers import free_ports
from stack import Failure


@contextlib.contextmanager
def proxy(port, seconds):
    """Gives the port that leads to a local one, in a process of its own so that nobody's work slows it further."""
    listen = free_ports(1)[0]
    process = subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), str(listen), str(port), str(seconds)],
        stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        if process.stdout.readline() != "ready\n":
            raise Failure("the slow proxy does not start")
        yield listen
    finally:
        process.terminate()
        process.wait()


async def serve(listen, port, seconds):
    async def forward(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def hold_back(reader, held):
        # Bounded: when so many pieces are held the server has to wait.
        while data := await reader.read(1 << 16):
            await held.put((time.monotonic() + seconds, data))
        await held.put((0, b""))

    async def release(held, writer):
        while True:
            moment, data = await held.get()
            if not data:
                break
            await asyncio.sleep(max(0, moment - time.monotonic()))
            writer.write(data)
            await writer.drain()
        writer.close()

    async def connected(reader, writer):
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        held = asyncio.Queue(4096)
        with contextlib.suppress(OSError):
            await asyncio.gather(
                forward(reader, server_writer), hold_back(server_reader, held), release(held, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", listen)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
