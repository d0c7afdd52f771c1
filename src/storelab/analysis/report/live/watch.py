"""Watch the files of a campaign: planned, done, failed and remaining points, the current point, the measuring process.

To use little CPU time, the record of a point is read only after the point ended. Older records are read with at most
the fraction READING of a core.
"""

import asyncio
import heapq
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from storelab.core import axes, integrity, records
from storelab.core.campaign import live
from storelab.core.errors import UserError

LOOK_S = 0.2  # seconds between two checks of the state
ALIVE_S = 1.0  # seconds between two checks if the measuring process is running
FOLDERS_S = 10.0  # seconds between two checks of all unfinished folders, if no end of a point was reported
SILENT_S, STAGING_S = 10.0, 600.0  # maximum seconds without news from another host: during a point, between two points
TABLE_S = 10.0  # seconds between two updates of the table of points while older records are read
MAX_FAILURES, RECENT = 20, 6  # maximum numbers of failed or invalid points, and of recent points, that are listed
READING = 0.003  # fraction of a core for reading older records
COLUMNS = ("order", "store", "workload", "rep", "key", "state", "reason", "seconds", "operations", "errors", "bytes")
RATES = ("operations_per_s", "mb_per_s", "started")
PENDING = "to come"


class Watched:
    """The state of a campaign's folder.

    version: a number that increases at each change; rows: key -> the known facts about a point.
    """

    def __init__(self, folder: Path):
        self.folder, self.raw = folder, folder / "raw"
        self.version = self.rows_version = 0
        self.state: dict[str, Any] | None = None
        self.rows: dict[str, dict[str, Any]] = {}
        self.axes: list[str] = []
        self.title, self.problem = folder.name, ""
        self.unread: list[str] = []
        self._stamps: dict[str, int] = {}
        self._looked = self._lived = self._tabled = 0.0
        self._rows_published = 0
        self._mood = ("waiting", "")
        self._changed = asyncio.Condition()

    # --- looking ---

    async def run(self) -> None:
        """Check the files until cancelled."""
        reading = asyncio.create_task(self._read_old())
        try:
            while True:
                if self.look():
                    self.version += 1
                    async with self._changed:
                        self._changed.notify_all()
                await asyncio.sleep(LOOK_S)
        finally:
            reading.cancel()

    async def changed(self, since: int, limit_s: float) -> int:
        """Wait until the version differs from `since`, for at most `limit_s` seconds, and return it."""
        async with self._changed:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(lambda: self.version != since), limit_s)
        return self.version

    def look(self) -> bool:
        """Check the files, and return True if something changed."""
        news = self._read_plan() if self._is_new("plan", self.raw / integrity.PLAN) else False
        now = time.monotonic()
        if self._is_new("state", live.path(self.folder)):
            before, self.state = self.state, live.read(self.folder)
            news = True
            if _ended(before) != _ended(self.state):
                self._looked = 0.0
        if now - self._looked >= FOLDERS_S:
            self._looked = now
            news |= self._look_at_points()
        if news or now - self._lived >= ALIVE_S:
            self._lived = now
            mood, self._mood = self._mood, self._find_mood()
            news |= mood != self._mood
        if self.rows_version != self._rows_published and (not self.unread or now - self._tabled >= TABLE_S):
            self._rows_published, self._tabled, news = self.rows_version, now, True
        return news

    def _is_new(self, name: str, path: Path) -> bool:
        """Return True if the file has changed since the last check."""
        try:
            found = path.stat()
            stamp = hash((found.st_mtime_ns, found.st_ino, found.st_size))
        except OSError:
            stamp = 0
        old, self._stamps[name] = self._stamps.get(name, 0), stamp
        return stamp != old

    def _read_plan(self) -> bool:
        """Read the planned points, and return True. If the plan is damaged, set `problem` and keep the last plan."""
        try:
            plan = integrity.plan_of(self.raw)
            self.title = str(plan["campaign"].get("title") or plan["campaign"]["name"])
        except UserError as error:
            self.problem = str(error)
            return True
        except (LookupError, TypeError, AttributeError):
            self.problem = f"{self.raw / integrity.PLAN}: does not name the campaign: the file is damaged"
            return True
        points, self.problem = plan["points"], ""
        self.axes = list(dict.fromkeys(_column(axis) for p in points for axis in p["axes"]))
        old, self.rows = self.rows, {}
        for order, p in enumerate(points):
            row = {"order": order, "store": p["store"], "workload": p["workload"], "rep": p["rep"], "key": p["key"]}
            known = old.get(p["key"]) or {"state": PENDING, "seconds": p.get("fixed", {}).get("duration_ns", 0) / 1e9}
            self.rows[p["key"]] = {**known, **{_column(axis): v for axis, v in p["axes"].items()}, **row}
        self._looked, self.rows_version = 0.0, self.rows_version + 1
        return True

    def _look_at_points(self) -> bool:
        """Find the points that have a record, or that failed in this run. Return True if something changed.

        The record of the point that has just ended is read immediately.
        """
        begun_ns = ((self.state or {}).get("run") or {}).get("begun_ns", 0)
        ended = (self.state or {}).get("point", {}).get("key")
        news = False
        for key, row in self.rows.items():
            found = self._kind(key, row, begun_ns)
            if found == row["state"] or (found == "done" and row["state"] in ("ok", "invalid")):
                continue
            news, row["state"] = True, found
            row.pop("reason", None)
            if found == "failed" or key == ended:
                self._read_record(key)
            elif found == "done":
                self.unread.append(key)
        self.rows_version += news
        return news

    def _kind(self, key: str, row: Mapping[str, Any], begun_ns: int) -> str:
        if row["state"] in ("done", "ok", "invalid") or integrity.has(self.raw, key):
            return "done"
        try:
            return "failed" if (self.raw / key / records.FAILED).stat().st_mtime_ns >= begun_ns else PENDING
        except OSError:
            return PENDING

    async def _read_old(self) -> None:
        """Read the older records slowly, until cancelled."""
        while True:
            begun = time.thread_time()
            if self.unread:
                self._read_record(self.unread.pop())
            spent = time.thread_time() - begun
            await asyncio.sleep(max(0.05, spent / READING) if self.unread else 1.0)

    def _read_record(self, key: str) -> None:
        """Read the record of a point, or the reason of its failure, and add the facts to its row."""
        row = self.rows[key]
        try:
            if row["state"] == "failed":
                row["reason"] = str(integrity.read(self.raw, key, records.FAILED)["reason"])
            else:
                row.update(facts(integrity.read(self.raw, key)))
        except (UserError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, OSError):
            row["reason"] = "the record of the point cannot be read; run `storelab verify`"
        self.rows_version += 1

    # --- results ---

    def _find_mood(self) -> tuple[str, str]:
        """Return the state of the campaign as a word and as a sentence."""
        state, counts = self.state, self.counts()
        if state is None:
            if self.rows and not counts[PENDING]:
                return _final_mood(counts, len(self.rows))
            return "waiting", "No process is measuring; no point has started."
        who, living = f"process {state['pid']}", live.lives(state)
        age_s = time.time() - state["written_ns"] / 1e9
        if state["stage"] != "ended":
            if living is False:
                return (
                    "killed",
                    f"The measuring {who} ended without a message: it was killed, or the machine was restarted. "
                    "Run the same command again to measure the remaining points.",
                )
            if living is None and age_s > SILENT_S and state["stage"] == "measuring":
                return "silent", f"No message from {state['host']} for more than {SILENT_S:.0f} s."
            return "running", "A point is being measured."
        if not counts[PENDING]:
            return _final_mood(counts, len(self.rows))
        goes_on = live.lives(state["run"])
        if goes_on or (goes_on is None and age_s < STAGING_S):
            return "between", "Between two points."
        return "stopped", f"No process is measuring; {counts[PENDING]} of {len(self.rows)} points remain."

    def counts(self) -> dict[str, int]:
        """Return the number of points by state. `done` includes points whose record has not been read yet."""
        out = dict.fromkeys(("done", "invalid", "failed", PENDING), 0)
        for row in self.rows.values():
            out["done" if row["state"] == "ok" else row["state"]] += 1
        out["done"] += out["invalid"]
        return out

    def report(self) -> Path | None:
        """Return the path of the report, or None if it does not exist or is older than the last record."""
        page, last = self.folder / "report.html", self.raw / integrity.SUMS
        try:
            return page if page.stat().st_mtime >= last.stat().st_mtime else None
        except OSError:
            return None

    def as_dict(self) -> dict[str, Any]:
        """Return the state of the campaign as JSON data, without the table of points."""
        mood, text = self._mood
        state, now_ns = self.state or {}, time.time_ns()
        left_s = state.get("left_s")
        if left_s is not None and mood in ("running", "between"):
            left_s = max(0.0, left_s - (now_ns - state["begun_ns"]) / 1e9)
        return {
            "name": self.folder.name,
            "title": self.title,
            "now_ns": now_ns,
            "mood": mood,
            "said": self.problem or text,
            "counts": self.counts(),
            "planned": len(self.rows),
            "left_s": left_s if mood in ("running", "between") else None,
            "age_s": (now_ns - state["written_ns"]) / 1e9 if state else None,
            "state": {k: v for k, v in state.items() if k in SHOWN} or None,
            "report": self.report() is not None,
            "rows": self._rows_published,
            **self._selected_points(),
        }

    def _selected_points(self) -> dict[str, list[dict[str, Any]]]:
        """Return the points that started last (`recent`), and those that failed or are invalid (`wrong`)."""

        def shown_fields(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
            return [{name: row.get(name) for name in ("key", "state", "reason", *RATES)} for row in rows]

        known = [row for row in self.rows.values() if row.get("started")]
        wrong = [row for row in self.rows.values() if row["state"] in ("failed", "invalid")]
        recent = heapq.nlargest(RECENT, known, key=lambda row: row["started"])
        return {"recent": shown_fields(recent), "wrong": shown_fields(wrong[:MAX_FAILURES])}

    def table(self) -> dict[str, Any]:
        """Return the table of all planned points, in the form of the page (`build.table_block`)."""
        columns = [*COLUMNS[:3], *self.axes, *COLUMNS[3:], *RATES]
        rows = list(self.rows.values())
        cells = [["" if (v := row.get(c)) is None else _text(v) for row in rows] for c in columns]
        return {"columns": columns, "cells": cells, "rows": len(rows), "behind": [str(i) for i in range(len(rows))]}


SHOWN = (
    *("host", "pid", "number", "points", "point", "stage", "begun_ns", "start_ns", "written_ns", "cores"),
    *("clients_told", "operations", "errors", "bytes", "client_rss_bytes", "server_rss_bytes", "outcome", "reason"),
    "seconds",
)


def _final_mood(counts: Mapping[str, int], planned: int) -> tuple[str, str]:
    """Return the state of a campaign in which no point remains, as a word and as a sentence."""
    if failed := counts["failed"]:
        return "failed", f"{failed} of {planned} points failed. Run the same command again to repeat them."
    return "complete", "All points are measured."


def facts(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts from a record: state, reason, seconds, sums over clients, and rates over the whole run.

    These rates include the warm-up, whereas the rates of the tables are computed in windows.
    """
    seconds = (run["deadline_ns"] - run["start_ns"]) / 1e9
    done = {name: sum(c[name] for c in run["clients"]) for name in ("operations", "errors", "bytes")}
    valid = run.get("valid", True)
    return {
        "state": "ok" if valid else "invalid",
        "reason": None if valid else run["budget"]["reason"],
        "seconds": seconds,
        **done,
        "operations_per_s": round(done["operations"] / seconds, 3),
        "mb_per_s": round(done["bytes"] / 1e6 / seconds, 3),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run["start_ns"] / 1e9)),
    }


def _column(axis: str) -> str:
    """Return the column of an axis in tables."""
    return axes.ALL[axis].column if axis in axes.ALL else axis


def _ended(state: Mapping[str, Any] | None) -> Any:
    """Return a value that changes when a point ends, or when another point or process starts."""
    return state and (state["pid"], state["born"], state["point"]["key"], state["stage"] == "ended")


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
