"""Run HTTP servers on loopback in a thread of the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """Run the server until the end of the context, and yield its URL."""
    server.daemon_threads = True
    server.socket.listen(256)  # with the default of 5, a client with many connections waits for a second
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
