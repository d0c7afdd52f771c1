"""A TCP proxy that signals cut and open again. It logs the moments, which are the true times of a fault.

`python gate.py HOST:PORT LOG` prints its port on loopback. SIGUSR1 cuts: the proxy resets existing and new connections.
SIGUSR2 opens it again. Each moment is a line of LOG: `cut` or `open`, and UTC ns. The proxy ends with the process that
started it.
"""

import asyncio
import contextlib
import signal
import socket
import struct
import sys
from pathlib import Path

from storelab.core import clock

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends a reset


class Gate:
    def __init__(self, target: str, log: Path):
        self.host, _, self.port = target.rpartition(":")
        self.log, self.open = log, True
        self.there: set[asyncio.StreamWriter] = set()

    def change(self, open_: bool) -> None:
        self.open = open_
        now = clock.now_ns()
        for writer in () if open_ else tuple(self.there):
            _reset(writer)
        with self.log.open("a") as log:
            log.write(f"{'open' if open_ else 'cut'} {now}\n")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            return _reset(writer)
        self.there.add(writer)
        with contextlib.suppress(OSError):
            up, down = await asyncio.open_connection(self.host, int(self.port))
            self.there.add(down)
            await asyncio.gather(_pump(reader, down), _pump(up, writer), return_exceptions=True)
            self.there.discard(down)
            down.close()
        self.there.discard(writer)
        writer.close()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.change, False)
        loop.add_signal_handler(signal.SIGUSR2, self.change, True)
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await server.serve_forever()


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.transport.abort()


if __name__ == "__main__":
    asyncio.run(Gate(sys.argv[1], Path(sys.argv[2])).run())
