"""The display of the point that is measured. It is drawn with rich from the state file, which other programs can read.

`progress.shown` decides whether there is a display.
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from storelab.core import clock, units
from storelab.core.campaign import live

WORDS = {
    "store": "starting the store",
    "data": "staging the data",
    "clients": "starting the clients",
    "measuring": "measuring",
    "checks": "checking and writing",
}
FIRST_REPORT_S = 3.0  # seconds after which clients have sent their first report, if they report during the run
EVERY_S, AFTER_LINE_S = 1.0, 0.5  # seconds between two drawings, and from a printed line to the next drawing
NARROW = 72  # columns; on narrower terminals, a bar has a separate line


class Plain(Console):
    """A console that does not hide the cursor, because the cursor would stay hidden if this process is killed."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


class View:
    """The lines that show a state. They depend only on the state and on the time."""

    def __init__(self, state: dict[str, Any], now_ns: int):
        self.state, self.now_ns = state, now_ns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(options.max_width)

    def lines(self, width: int) -> list[RenderableType]:
        state, point = self.state, self.state["point"]
        elapsed = (self.now_ns - (state["start_ns"] or self.now_ns)) / 1e9
        elapsed = min(max(0.0, elapsed), point["duration_s"])
        left_s = max(0.0, state["left_s"] - (self.now_ns - state["begun_ns"]) / 1e9)
        stage = WORDS.get(state["stage"], state["stage"])
        if state["stage"] == "measuring":
            stage = f"{_time(elapsed)} of {_time(point['duration_s'])}"
        campaign = f"{state['number'] - 1} of {state['points']} done, {_time(left_s)} left"
        return [
            _cut(f"{state['campaign']}: {point['store']} {point['workload']} {point['said']}", "bold"),
            _bar("campaign", state["number"] - 1, state["points"], campaign, width),
            _bar("point", elapsed, point["duration_s"], stage, width),
            *map(_cut, self.numbers(width, elapsed)),
        ]

    def numbers(self, width: int, elapsed_s: float) -> list[str]:
        """Return lines with the rates of the last second and the CPU use. A narrow terminal needs more lines."""
        state = self.state
        last = {name: (column or [None])[-1] for name, column in state["seconds"].items()}
        if last["operations_per_s"] is None:
            silent = state["stage"] == "measuring" and elapsed_s > FIRST_REPORT_S
            rates = ["the clients report their rates at the end"] if silent else []
        else:
            errors = f"{state['errors']} failed"
            rates = [f"{last['operations_per_s']:,.0f} operations/s", _per_second(last["bytes_per_s"]), errors]
        sides = (("clients", "client_cores"), ("store", "server_cores"), ("host", "host_cores"))
        cores = [f"{name} {last[column]:.2f}" for name, column in sides if last[column] is not None]
        if cores:
            cores = [f"CPU {cores[0]}", *cores[1:]]
            cores[-1] += f" of {state['cores']} cores"
        return _joined(rates, width) + _joined(cores, width)


def _joined(parts: list[str], width: int) -> list[str]:
    """Return the parts on as few lines as possible."""
    out: list[str] = []
    for part in parts:
        if out and len(out[-1]) + 3 + len(part) <= width:
            out[-1] += f" · {part}"
        else:
            out.append(f"  {part}")
    return out


def _cut(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _bar(name: str, done: float, total: float, label: str, width: int) -> RenderableType:
    row, wide = Table.grid(padding=(0, 1)), width - 1 if width < NARROW else width // 3
    bar = ProgressBar(total or 1, done, width=wide, complete_style="cyan", finished_style="cyan")
    if width < NARROW:
        row.add_row(bar)
        return Group(_cut(f"{name} {label}"), row)
    row.add_row(f"  {name:8s}", bar, _cut(label))
    return row


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 59.5 else units.human_duration(round(seconds) * 1e9)


def _per_second(rate: float) -> str:
    return f"{units.human_size(round(rate))}/s"


class Display:
    """A thread that draws the state of a campaign on a terminal until it is closed."""

    def __init__(self, terminal: TextIO, campaign_dir: Path):
        self.terminal, self.folder = terminal, campaign_dir
        self.console = Plain(file=terminal, force_terminal=True)
        self.live = Live(
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self.lock, self.ended, self.not_before = threading.Lock(), threading.Event(), 0.0
        self.thread = threading.Thread(target=self._run, daemon=True, name="display")

    def _run(self) -> None:
        while not self.ended.wait(EVERY_S):
            with suppress(OSError):  # the terminal may have been closed
                self.draw()

    def draw(self) -> None:
        state = live.read(self.folder)
        if state is None or state["pid"] != os.getpid() or state["stage"] == "ended":
            return
        with self.lock:
            if self.ended.is_set() or time.monotonic() < self.not_before:
                return
            columns, rows = os.get_terminal_size(self.terminal.fileno())
            self.console.size = (columns or 80, rows or 24)  # some terminals do not know their size
            if not self.live.is_started:
                self.live.start()
            self.live.update(View(state, clock.now_ns()), refresh=True)

    def clear_display(self) -> None:
        """Clear the display, so that a line can be printed."""
        with self.lock, suppress(OSError):
            self.not_before = time.monotonic() + AFTER_LINE_S
            self.live.stop()

    def close(self) -> None:
        self.ended.set()
        self.clear_display()
