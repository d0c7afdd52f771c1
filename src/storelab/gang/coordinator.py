"""Runs the gang of one point: launch, watch, gather. Accepts only a complete gang (as many clients as asked, all in time)."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from storelab import records
from storelab.gang import rendezvous
from storelab.model import MeasurementFailed

GRACE_S = 60.0  # after the deadline, for parsing, checking and writing


class Launcher(Protocol):
    name: str

    def start(self) -> None: ...
    def ended(self) -> dict[int, int]: ...
    def stop(self) -> None: ...


def run(
    launcher: Launcher, folder: Path, size: int, timeout_s: float, duration_s: float, at_start: Callable[[int], None]
) -> list[dict[str, Any]]:
    """Run the gang in `folder` (which holds `job.json`); returns the clients' results by rank.

    `at_start(t0_ns)` is called once, as soon as the start is agreed. Raises MeasurementFailed with the clients' own reasons,
    or who did not come, or who answered too late. No client is left behind, whatever happens.
    """
    try:
        launcher.start()
        limit = time.monotonic() + timeout_s + duration_s + GRACE_S
        started, quiet_until = False, 0.0
        while True:
            if not started and (folder / "go").exists():
                decision = records.read_json(folder / "go")
                if "t0_ns" in decision:
                    at_start(decision["t0_ns"])
                    quiet_until = time.monotonic() + duration_s
                started = True
            done = rendezvous.present(folder, "result")
            if len(done) >= size:
                break
            ended = launcher.ended()
            lost = sorted(set(ended) - done - rendezvous.present(folder, "result"))
            failed = [r for r in done if not _ok(folder, r)]
            if lost or failed:
                rendezvous.put(folder / "abort", {"lost": lost, "failed": failed})
                raise MeasurementFailed(_reason(folder, lost, failed, ended))
            if time.monotonic() > limit:
                raise MeasurementFailed(f"clients {sorted(set(range(size)) - done)} left no result {GRACE_S:.0f} s after the deadline")
            time.sleep(0.2 if time.monotonic() < quiet_until else 0.02)  # while clients measure, look seldom
        results = [records.read_json(folder / f"result.{r}") for r in range(size)]
    finally:
        launcher.stop()
    return _accept(results, size, folder)


def _ok(folder: Path, rank: int) -> bool:
    return records.read_json(folder / f"result.{rank}")["exit_status"] == 0


def _reason(folder: Path, lost: list[int], failed: list[int], ended: dict[int, int]) -> str:
    reasons = [f"client {r}: {records.read_json(folder / f'result.{r}')['failure']}" for r in failed]
    for rank in lost:
        log = folder / f"client.{rank}.log"
        last = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
        reasons.append(f"client {rank} ended with status {ended[rank]} and left no result" + (f" ({last[0][:200]})" if last else ""))
    return "; ".join(dict.fromkeys(reasons))


def _accept(results: list[dict[str, Any]], size: int, folder: Path) -> list[dict[str, Any]]:
    bad = [r["client"] for r in results if r["exit_status"] != 0]
    if bad:
        raise MeasurementFailed(_reason(folder, [], bad, {}))
    if len({r["pid"] for r in results}) != size or len({r["t0_ns"] for r in results}) != 1:
        raise MeasurementFailed("the gang is not one: clients came twice, or agreed on different starts")
    if late := [r["client"] for r in results if not r["saw_go_in_time"]]:
        raise MeasurementFailed(f"clients {late} learned of the start too late: raise `lead`")
    return results
