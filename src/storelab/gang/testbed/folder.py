"""The folder of a testbed, marked as such: what goes away with the testbed is never somebody else's (level 3, measuring side)."""

from pathlib import Path

from storelab.core.errors import UserError

PLACE, MARK = "testbed", ".storelab-testbed"


def claim(folder: Path) -> None:
    """Make it a testbed's, where it is empty or not there. Raises UserError: it holds something else."""
    if folder.exists() and not claimed(folder) and any(folder.iterdir()):
        raise UserError(
            PLACE,
            f"{folder} holds files that are no testbed's",
            "name a folder that is empty, or not there yet (--folder)",
        )
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / MARK).touch()


def claimed(folder: Path) -> bool:
    """Whether a testbed was made there."""
    return (folder / MARK).exists()
