"""Define a nightly software release: the new files of each day, their kinds, and how large files are cut.

The means and standard deviations of a day were published in 2015. The shares and sizes of the kinds are storelab's
choice. They give the published mean of 46 kB.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from storelab.core import units
from storelab.core.config_types import FolderPath, Once, Size, StrictModel, Text, given

WINDOW = 32  # number of bytes from which the end of a chunk is computed
SHRINKS, PAGE = 0.45, 4096  # compressed / original bytes of a day of the default kinds; bytes of a memory page
_REPOSITORY = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")


@dataclass(frozen=True)
class Kind:
    """A kind of files in the generated tree."""

    folder: str  # folder in each package
    suffix: str
    share: float  # share of the new files
    body: str  # kind of content, see BODIES
    median: int  # stored (compressed) bytes; sizes are log-normal
    sigma: float  # standard deviation of the logarithm
    mode: int


KINDS = (
    Kind("include", ".h", 0.36, "text", 1300, 1.0, 0o644),
    Kind("python", ".py", 0.27, "text", 1500, 1.1, 0o755),
    Kind("lib", ".so", 0.07, "code", 200_000, 1.5, 0o755),
    Kind("data", ".dat", 0.08, "noise", 6000, 1.6, 0o644),
    Kind("doc", ".html", 0.22, "text", 1200, 1.2, 0o644),
)

# Stored bytes of a file -> ratio of its original to its stored bytes, at zlib level 6. Values between are interpolated
# linearly in the logarithm; the first and the last value also apply outside. A test compresses files and compares.
BODIES: dict[str, tuple[tuple[int, float], ...]] = {
    "text": (
        (97, 1.03),
        (209, 1.43),
        (503, 1.99),
        (1165, 2.57),
        (3000, 3.33),
        (9200, 4.35),
        (30_000, 5.0),
        (114_000, 5.25),
    ),
    "code": (
        (110, 0.91),
        (300, 1.0),
        (900, 1.11),
        (2300, 1.31),
        (6500, 1.55),
        (20_800, 1.92),
        (70_000, 2.15),
        (270_000, 2.23),
    ),
    "noise": ((110, 0.9), (311, 0.96), (1000, 0.99), (3000, 1.0)),
}


class Tree(StrictModel):
    """A real folder tree instead of the generated one. On each day, the next of its versions is published."""

    path: FolderPath = Field(description="Folder that contains the versions.")
    versions: Annotated[list[Text], Once] = Field(
        min_length=1,
        description="Sub-folders, in the order in which they are published; `.` is the folder itself.",
    )

    @field_validator("versions")
    @classmethod
    def _inside(cls, versions: list[str]) -> list[str]:
        for version in versions:
            if version.startswith("/") or ".." in PurePosixPath(version).parts:
                raise ValueError(f"{version!r} is outside the tree; name sub-folders of `path`")
        names = [version_folder(version) for version in versions]
        if twice := next((v for i, v in enumerate(versions) if names[i] in names[:i]), None):
            raise ValueError(f"{twice!r} would have the same folder as another version; rename one of them")
        return versions


def version_folder(version: str) -> str:
    """Return the folder of a version in the repository."""
    return "-".join(PurePosixPath(version).parts) or "tree"


class Chunks(StrictModel):
    """The limits for chunks of big files. The content determines where a file is cut (xor32 of CvmFS)."""

    minimum: Size = Field(
        given("4 MiB"), description="Minimum length of a chunk, except the last one. Files up to this size are not cut."
    )
    average: Size = Field(given("8 MiB"), description="Mean length of a chunk of random data.")
    maximum: Size = Field(given("16 MiB"), description="Maximum length of a chunk.")

    @model_validator(mode="after")
    def _ascend(self) -> "Chunks":
        if self.minimum < WINDOW:
            raise ValueError(f"`minimum` is {self.minimum} B, but chunks have at least {WINDOW} B; set a larger value")
        if not self.minimum < self.average < self.maximum:
            raise ValueError("`minimum`, `average` and `maximum` are not in ascending order; change one of them")
        return self


class Release(StrictModel):
    """A nightly software release in a repository of CvmFS's format, see docs/releases.md."""

    repository: Text = Field("nightlies.example.org", description="Name of the repository; all keys begin with it.")
    seed: int = Field(20150413, ge=0, lt=2**63, description="Seed of the generated tree.")
    factor: float = Field(
        0.001,
        gt=0,
        le=10,
        description="Factor on the size of the published release: files and bytes of a day, and files of a night.",
    )
    days: int | None = Field(
        None, ge=1, le=100_000, description="Number of days; default: 110, or one for each version of `tree`."
    )
    files_a_day: int = Field(162_000, ge=1, le=10**8, description="Mean number of new files of a day at factor 1.")
    files_deviation: int = Field(
        28_000, ge=0, le=10**8, description="Standard deviation of `files_a_day` (log-normal)."
    )
    bytes_a_day: Size = Field(
        given("7.45 GB"), description="Mean (compressed) bytes of new objects of a day at factor 1."
    )
    bytes_deviation: Size = Field(given("3.78 GB"), description="Standard deviation of `bytes_a_day` (log-normal).")
    tree_files: int = Field(400_000, ge=1, le=10**8, description="Maximum number of files of a night at factor 1.")
    changed: float = Field(
        0.6,
        ge=0,
        le=1,
        description="Fraction of the new files that replace a file of the previous night; the others are added.",
    )
    links: float = Field(0.04, ge=0, lt=1, description="Number of symbolic links per added file.")
    nights: int = Field(
        7,
        ge=1,
        le=1000,
        description="Number of nights that stay in the repository; older nights are removed from its root.",
    )
    tree: Tree | None = Field(None, description="A real tree of the user instead of the generated one.")
    chunks: Chunks = Field(default_factory=Chunks, description="How big files are cut into chunks.")
    zlib_level: int = Field(6, ge=0, le=9, description="Compression level of zlib.")
    catalog_depth: int = Field(
        1,
        ge=0,
        le=4,
        description=(
            "Folders at this depth below a night, and folders with a file `.cvmfscatalog`, have separate catalogs."
        ),
    )

    @field_validator("repository")
    @classmethod
    def _domain(cls, name: str) -> str:
        if len(name) > 60 or not _REPOSITORY.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid repository name; write it like nightlies.example.org")
        return name

    @model_validator(mode="after")
    def _enough(self) -> "Release":
        if not self.bytes_a_day:
            raise ValueError("`bytes_a_day` is 0; set a larger value")
        if self.tree and self.days and self.days > len(self.tree.versions):
            raise ValueError(
                f"`tree` has {len(self.tree.versions)} versions for {self.days} days; add versions, or set fewer days"
            )
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON which can be read again. Sizes have a unit."""
        out = self.model_dump(mode="json")
        out |= {name: f"{out[name]} B" for name in ("bytes_a_day", "bytes_deviation")}
        return out | {"chunks": {name: f"{size} B" for name, size in out["chunks"].items()}}

    @property
    def all_days(self) -> int:
        """Return the number of days."""
        return self.days or (len(self.tree.versions) if self.tree else 110)


def a_night(release: Mapping[str, Any]) -> int:
    """Return the approximate maximum bytes of a night's files before compression, rounded up to memory pages.

    release: the settings of a point.
    """
    files, stored = release["tree_files"], units.parse(release["bytes_a_day"], "size", "") / release["files_a_day"]
    size: float = release["factor"] * files * (stored / SHRINKS + PAGE)
    return round(size)


def a_day(release: Mapping[str, Any]) -> tuple[int, int]:
    """Return the approximate number and bytes of the new files of a day. release: the settings of a point."""
    factor, size = release["factor"], units.parse(release["bytes_a_day"], "size", "")
    return max(1, round(factor * release["files_a_day"])), round(factor * size)
