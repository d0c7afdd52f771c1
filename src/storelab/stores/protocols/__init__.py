"""Access to stores: endpoints and credentials, and access over S3, files, WebDAV and WebHDFS.

This package may import `host` and `core`. Client processes import it, so slow modules are imported inside functions.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storelab.stores.protocols.access import Access
    from storelab.stores.protocols.endpoint import Credentials, Endpoint


def open_access(
    endpoint: "Endpoint", credentials: "Credentials | None", place: str, read_only: bool = False
) -> "Access":
    """Return the access for an endpoint's protocol.

    `place` is the place in the configuration, for messages. With `read_only`, writing raises UserError.
    """
    if endpoint.protocol == "s3":
        from storelab.stores.protocols.s3 import S3Access
        from storelab.stores.protocols.s3_clients import client

        assert credentials is not None
        return S3Access(client(endpoint, credentials, read_only=read_only), place)
    from storelab.stores.protocols.files import FilesAccess

    return FilesAccess(endpoint, place, read_only)
