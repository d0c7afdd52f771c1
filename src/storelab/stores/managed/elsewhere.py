"""A managed store that was started on another host which shares its folder.

It is used, and never started, signalled or stopped from here.
"""

import functools
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storelab.core.errors import MeasurementFailed, UserError


@functools.cache
def here() -> dict[str, str]:
    """What a daemon's record says of its host: name, and boot id, which another host has not."""
    return {"machine": platform.node(), "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}


def host(records: Mapping[str, Mapping[str, Any]]) -> str:
    """The other host that these daemons were started on; '' where it is this one.

    A host that was booted anew has kept its name.
    """
    own = here()
    others = (r["machine"] for r in records.values() if r.get("boot_id", own["boot_id"]) != own["boot_id"])
    return next((machine for machine in others if machine != own["machine"]), "")


def look(store: Any, front_ends: int, accounts: int) -> None:
    """Raises UserError where there are fewer front-ends or accounts, or one does not answer."""
    there, names = store.daemons.elsewhere(), store.front_ends()
    if len(names) < front_ends or store.accounts() < accounts:
        raise UserError(
            store.place,
            f"{front_ends} front-ends and {accounts} accounts asked, {len(names)} and {store.accounts()} are on "
            f"{there}",
            f"`storelab up` on {there}",
        )
    for name in names[:front_ends]:
        try:
            store.warm_up_one(store.endpoint(name))
        except (UserError, MeasurementFailed, OSError) as error:
            mend = f"`storelab up` on {there}; if that host is gone, remove {store.daemons.file}"
            raise UserError(store.place, f"{name} on {there} does not answer: {error}", mend) from None
