"""What a store's own administration tells: asked by the coordinator, before the clients start. May import:
`stores`, `core`.
"""

from storelab.core.answers import ERROR, NOT_TRIED, Told
from storelab.stores.base import Store
from storelab.stores.managed.accounts import QUESTIONS


def ask(store: Store) -> list[Told]:
    """An answer to each question, whatever the store. A tool that fails is an `error`: it says nothing of what the
    system can do.
    """
    try:
        why = (
            f"storelab runs {store.settings.kind} without users"
            if store.managed
            else "no administration that storelab may use"
        )
        return store.administration() or [Told(name, NOT_TRIED, why) for name in QUESTIONS]
    except Exception as error:  # noqa: BLE001  a question beside the probe itself
        return [
            Told(name, ERROR, f"{type(error).__name__}: {' '.join(str(error).split())[:150]}") for name in QUESTIONS
        ]
