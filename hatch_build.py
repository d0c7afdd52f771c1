"""Add to the wheel the files of a project folder and the sources that `storelab install` builds.

The checkout has them at its root; in the wheel they are `storelab/project/`, where
`storelab/install/project.py` finds them. An editable install needs no copy.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Shipped(BuildHookInterface):
    """`files` of `[tool.hatch.build.hooks.custom]` in pyproject.toml, without tests of Go and what editors leave."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        for name in self.config["files"]:
            place = root / name
            if not place.exists():
                raise FileNotFoundError(f"{name} of pyproject.toml's list is not there")
            for path in [place] if place.is_file() else sorted(place.rglob("*")):
                inside = path.relative_to(root)
                hidden = any(part.startswith(".") or part == "__pycache__" for part in inside.parts)
                if path.is_file() and not hidden and not path.name.endswith("_test.go"):
                    build_data["force_include"][str(path)] = f"storelab/project/{inside.as_posix()}"
