"""Add to the wheel the files of a project folder and the sources that `storelab install` builds.

The checkout has them at its root; in the wheel they are `storelab/project/`, where
`storelab/install/project.py` finds them. An editable install needs no copy.
"""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITED = "config.yaml"  # users write their endpoints into it


def refuse_changed(root: Path, name: str) -> None:
    """End the build if a file of a checkout differs from the committed one, because others would receive it."""
    if not (root / ".git").exists():  # a source package, which was built by this function's rules
        return
    git = ["git", "-c", f"safe.directory={root.resolve()}", "-C", str(root)]
    done = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", name], check=False)
    if done.returncode:
        fix = f"commit it, or build from a fresh clone (`git stash push {name}` keeps your changes)"
        raise SystemExit(f"storelab: {name}: is not as committed, and the package would contain your changes; {fix}")


class Shipped(BuildHookInterface):
    """`files` of `[tool.hatch.build.hooks.custom]` in pyproject.toml, without tests of Go and what editors leave."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        refuse_changed(root, EDITED)
        if self.target_name != "wheel":
            return
        for name in self.config["files"]:
            place = root / name
            if not place.exists():
                raise FileNotFoundError(f"{name} of pyproject.toml's list is not there")
            for path in [place] if place.is_file() else sorted(place.rglob("*")):
                inside = path.relative_to(root)
                hidden = any(part.startswith(".") or part == "__pycache__" for part in inside.parts)
                if path.is_file() and not hidden and not path.name.endswith("_test.go"):
                    build_data["force_include"][str(path)] = f"storelab/project/{inside.as_posix()}"
