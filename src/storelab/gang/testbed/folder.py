"""The folder of a testbed, marked as such: taking a testbed down never removes anybody else's files."""

from pathlib import Path

from storelab.core.errors import UserError

PLACE, MARK = "testbed", ".storelab-testbed"


def claim(folder: Path) -> None:
    """Mark the folder as a testbed's; it must be empty or not exist. Raises UserError: it holds something else."""
    if folder.exists() and not claimed(folder) and any(folder.iterdir()):
        raise UserError(
            PLACE,
            f"{folder} holds files that are no testbed's",
            "name a folder that is empty or does not exist (--folder)",
        )
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / MARK).touch()


def claimed(folder: Path) -> bool:
    """Whether the folder is a testbed's."""
    return (folder / MARK).exists()
