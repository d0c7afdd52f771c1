"""Wire bytes of urllib3's connections, TLS or not: each is read once more as it closes (level 2, measuring side; urllib3 only)."""

from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from storelab.engines.common.wire import Wire


class _Told:
    """What is added to urllib3's connections: `wire` knows each socket while it is open."""

    wire: Wire
    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.wire.adopt(self.sock)

    def getresponse(self) -> Any:
        """An answer that ends by the connection's end closes it here, before its body is read: these bytes are not known."""
        answer = super().getresponse()  # type: ignore[misc]
        self.wire.lost += self.sock is None
        return answer

    def close(self) -> None:
        if self.sock is not None:
            self.wire.retire(self.sock)
        super().close()  # type: ignore[misc]


class HttpWire(Wire):
    """Sockets of the pools that it makes."""

    def pools(self) -> dict[str, Any]:
        """For `PoolManager.pool_classes_by_scheme`."""
        plain = type("Plain", (_Told, HTTPConnection), {"wire": self})
        secure = type("Secure", (_Told, HTTPSConnection), {"wire": self})
        return {
            "http": type("PlainPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("SecurePool", (HTTPSConnectionPool,), {"ConnectionCls": secure}),
        }
