"""Build warp, a peer of `peers.py`, from source with storelab's own Go: `benchmarks/warp.py`.

`envs/go/warp` pins its version and the hashes of all its modules. The binary is installed where `storelab install` puts
programs, and `peers.py` finds it there. An existing binary is kept.
"""

from pathlib import Path

from common import run, say

from storelab.install import golang, tools_folder

WARP = golang.Program(
    "warp",
    "github.com/minio/warp",
    "github.com/minio/warp",
    "Go modules, 200 MB to download; some nine minutes of CPU to build; 80 MB stay; no root",
    3e9,
)


def binary() -> Path | None:
    """Return the path of the program in the pinned version; None if it is not built."""
    tools = tools_folder()
    return tools / "bin" / "warp" if golang.present(WARP, tools) else None


def main() -> None:
    for part in WARP.parts(tools_folder()):
        if not part.present():
            say(f"warp: {part.what}: {part.needs}")
            part.run(say)
        say(f"warp: {part.what}: {binary()}")


if __name__ == "__main__":
    run(main)
