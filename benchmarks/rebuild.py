"""rebuild_s: `make paper` of the sealed reference campaign in a fresh copy; no network (as root), no s5cmd, no S3 variables."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from common import BIN, ROOT, options, report, say, timed


def main() -> None:
    args = options(__doc__)
    n = 3 if args.quick else 7
    missing = [name for name in ("latexmk",) if not shutil.which(name)]
    values: list[float] = []
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="storelab-rebuild-"))
    try:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "S3_"))}
        env["PATH"] = ":".join(p for p in env["PATH"].split(":") if not (Path(p) / "s5cmd").exists())
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
        for i in range(0 if missing else n):
            copy = folder / str(i)
            for name in filter(None, files):
                if (ROOT / name).is_file():
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, copy / name)
            tools = copy / ".venv" / "bin"  # the interpreter's folder without s5cmd and weed
            tools.mkdir(parents=True)
            for tool in BIN.iterdir():
                if tool.name not in ("s5cmd", "weed"):
                    (tools / tool.name).symlink_to(tool)
            shutil.copy2(BIN.parent / "storelab-lock", copy / ".venv" / "storelab-lock")
            values.append(timed([*alone, "make", "paper"], copy, env))
            assert (copy / "results/reference/paper.pdf").exists()
            say(f"rebuild: {i + 1} of {n}: {values[-1]:.1f} s")
    finally:
        shutil.rmtree(folder)
    report("rebuild", len(values), {"rebuild_s": values}, args, missing)


if __name__ == "__main__":
    main()
