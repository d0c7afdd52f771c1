"""Wire bytes of urllib3's connections, with or without TLS: each is read once more when it closes. urllib3 only."""

from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from storelab.engines.common.wire import Wire


class _Told:
    """Added to urllib3's connections: `wire` knows each socket while it is open."""

    wire: Wire
    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.wire.adopt(self.sock)

    def getresponse(self) -> Any:
        """If the end of the connection ends the answer, urllib3 closes it before the body: these bytes are unknown."""
        answer = super().getresponse()  # type: ignore[misc]
        self.wire.lost += self.sock is None
        return answer

    def close(self) -> None:
        if self.sock is not None:
            self.wire.retire(self.sock)
        super().close()  # type: ignore[misc]


class HttpWire(Wire):
    """The sockets of the pools that it makes."""

    def pools(self) -> dict[str, Any]:
        """For `PoolManager.pool_classes_by_scheme`."""
        plain = type("Plain", (_Told, HTTPConnection), {"wire": self})
        secure = type("Secure", (_Told, HTTPSConnection), {"wire": self})
        return {
            "http": type("PlainPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("SecurePool", (HTTPSConnectionPool,), {"ConnectionCls": secure}),
        }
