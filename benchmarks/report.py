"""Measure first_view_s and report_mb: the time that headless Chromium needs to show a report, and the report's size.

The reports are those of the reference campaign and of a synthetic one of 2000 points, opened without a network.
--pictures FOLDER CAMPAIGN … only saves pictures of all views of these campaigns, for inspection.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import browser
from common import BIN, ROOT, environ, options, report, run, say, sized, timed

sys.path.insert(0, str(ROOT / "tests" / "support"))

VIEWS = ("overview", "figures", "table/throughput", "points", "print")
SIZES = {"1400": (1400, 900), "500": (500, 900)}


def made(folder: Path, raw: Path) -> Path:
    """Make the report of a campaign in this folder; return its path."""
    folder.mkdir(parents=True)
    (folder / "raw").symlink_to(raw)
    for command in ("tables", "report"):
        subprocess.run(
            [BIN / "storelab", command, "--campaign-dir", folder], check=True, env=environ(), stdout=subprocess.DEVNULL
        )
    return folder / "report.html"


def large(folder: Path, repetitions: int) -> Path:
    """Make a synthetic campaign of 30 points for each repetition, with its tables."""
    import make_examples

    make_examples.make(folder, repetitions=repetitions)
    subprocess.run(
        [BIN / "storelab", "tables", "--campaign-dir", folder], check=True, env=environ(), stdout=subprocess.DEVNULL
    )
    return folder


def pictures(folder: Path, campaigns: list[str]) -> None:
    """Save every view of these campaigns at both widths, light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    with browser.page() as tab:
        for campaign in map(Path, campaigns):
            for width, size in SIZES.items():
                for dark in (False, True):
                    for view in VIEWS:
                        tab.open(campaign / "report.html", f"#{view}", size, dark)
                        tab.evaluate("new Promise((done) => setTimeout(done, 700))")
                        look = "dark" if dark else "light"
                        name = f"{campaign.resolve().name}-{view.replace('/', '-')}-{width}-{look}.png"
                        tab.picture(folder / name)
                        say(name)


def main() -> None:
    if sys.argv[1:2] == ["--pictures"]:
        pictures(Path(sys.argv[2]), sys.argv[3:])
        return
    args = options(__doc__)
    n = sized(args, 11, 5, 2)
    one = "compared" if args.smoke else "reference"
    values: dict[str, list[float]] = {}
    missing = [] if browser.program() else ["first_view_s, first_view_2000_s: chromium is not installed"]
    folder = Path(tempfile.mkdtemp(prefix="storelab-report-"))
    try:
        pages = {"": made(folder / one, ROOT / "results" / one / "raw")}
        big = large(folder / "large", sized(args, 67, 67, 2))
        values["report_2000_s"] = [timed([str(BIN / "storelab"), "report", "--campaign-dir", str(big)], folder)]
        pages["_2000"] = big / "report.html"
        for name, path in pages.items():
            values[f"report{name}_mb"] = [path.stat().st_size / 1e6]
        if not missing:
            with browser.page() as tab:
                for name, path in pages.items():
                    for i in range(n + 1):  # the first one warms up the browser
                        took = tab.open(path)
                        assert [r for r in tab.requests if r != path.resolve().as_uri()] == [] and tab.errors == []
                        if i:
                            values.setdefault(f"first_view{name}_s", []).append(took)
                        say(f"report: {path.parent.name} {took:.2f} s")
    finally:
        shutil.rmtree(folder)
    report("report", n, values, args, missing)


if __name__ == "__main__":
    run(main)
