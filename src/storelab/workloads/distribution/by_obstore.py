"""The same by the library obstore: less CPU for each request. It signs by itself, and sends no access header.

May import: `stratum`, `engines`, `datasets`.
"""

from collections.abc import Sequence
from http.client import HTTPMessage
from typing import Any

from storelab.datasets.release import names
from storelab.engines.common import s3_library
from storelab.engines.common.error_classes import classify, said
from storelab.workloads.distribution import many, patterns
from storelab.workloads.distribution.stratum import Stratum
from storelab.workloads.probe.plain_http import Reply

HTTP_1_1 = 11


class ObstoreStratum(Stratum):
    """Its keys are those in the environment."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        import obstore

        self.library = obstore
        self.store, self.several = (
            s3_library.store(
                self.endpoint, self.bucket, {"timeout": f"{patterns.TIMEOUT_S:g}s"}, disable_bulk_delete=alone
            )
            for alone in (True, False)  # by itself it deletes even one object by the request for several
        )

    def _send(self, op: str, key: str, worker: int, data: bytes | None) -> tuple[Reply | None, str, str]:
        path, body = self.prefix + key, b""
        try:
            if op == "PUT":
                attributes = {"Content-Type": names.content_type(key), "Cache-Control": names.cache_control(key)}
                self.library.put(self.store, path, data, use_multipart=False, attributes=attributes)
            elif op == "HEAD":
                self.library.head(self.store, path)
            elif op == many.ONE:
                self.library.delete(self.store, path)
            else:
                body = bytes(self.library.get(self.store, path).bytes())
            return Reply(200, HTTPMessage(), body, HTTP_1_1), "", ""
        except FileNotFoundError as error:
            return Reply(404, HTTPMessage(), b"", HTTP_1_1), "NotFound", said(error)
        except Exception as error:  # noqa: BLE001 - whatever the library raises, the request failed
            return _refused(error)

    def _send_several(self, keys: Sequence[str], worker: int) -> tuple[Reply | None, str, str]:
        try:
            self.library.delete(self.several, [self.prefix + key for key in keys])
            return Reply(200, HTTPMessage(), b"", HTTP_1_1), "", ""
        except Exception as error:  # noqa: BLE001 - as above
            return _refused(error)


def _refused(error: Exception) -> tuple[Reply | None, str, str]:
    kind, status = classify(error)
    return Reply(status, HTTPMessage(), b"", HTTP_1_1) if status else None, kind, said(error)
