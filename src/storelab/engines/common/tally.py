"""What a client's selection reads add up to, and the checks that follow.

May import: `engines.common.wire`, `contract`.
"""

from dataclasses import dataclass

from storelab.engines.common.wire import Counts
from storelab.engines.contract import Check


@dataclass
class Done:
    """One selection that was read: its content, its planned requests and bytes asked, and its phases in ns."""

    branches: int
    baskets: int
    decoded: int  # entries, over all branches
    needed_bytes: int
    requests: int
    asked_bytes: int
    plan_ns: int
    transfer_ns: int
    verify_ns: int
    decompress_ns: int
    deserialise_ns: int


@dataclass
class Tally:
    """Sums over completed reads: baskets, entries, ns of verifying; and the reads whose traffic was not as planned."""

    baskets: int = 0
    entries: int = 0
    verify_ns: int = 0
    wrong_requests: int = 0
    wrong_bytes: int = 0

    def add(self, spent: Counts, done: Done) -> None:
        """Add a read. spent: its traffic without the opening, which must be as planned: asked and answered in full."""
        self.baskets += done.baskets
        self.entries += done.decoded
        self.verify_ns += done.verify_ns
        self.wrong_requests += spent.requests != done.requests
        nothing_sent = not spent.requests  # everything came with the header
        wire_ok = spent.wire_bytes is None or spent.wire_bytes > spent.body_bytes or nothing_sent
        self.wrong_bytes += not (spent.asked_bytes == spent.body_bytes == done.asked_bytes and wire_ok)

    def checks(self, reads: int, failed: list[str], messages: dict[str, str], late: int, opened: bool) -> list[Check]:
        """reads: completed; failed: error classes of the others; messages: the first of each class; late: abandoned."""
        wrong = {k: failed.count(k) for k in ("ChecksumMismatch", "SideCarMismatch", "EntriesMismatch")}
        said = {k: f": {messages[k]}" if n else "" for k, n in wrong.items()}
        summary = f"{reads} completed, {len(failed)} failed"
        summary += f", {late} not done in the grace after the deadline" if late else ""
        kind, text = next(iter(messages.items()), ("", ""))
        summary += f"; first error {text if kind in text else f'{kind}: {text}'}" if failed else ""
        compared = "the baskets are those of the side-car" if opened else "not compared: the file was not opened"
        crc32, entries = wrong["ChecksumMismatch"], wrong["EntriesMismatch"]
        right = f"{self.baskets} baskets right, {crc32} reads with a wrong one{said['ChecksumMismatch']}"
        return [
            Check("reads", reads > 0, summary),
            Check("side-car", not wrong["SideCarMismatch"], said["SideCarMismatch"][2:] or compared),
            Check("crc32", not crc32, right),
            Check("entries decoded", not entries, f"{self.entries} of all branches{said['EntriesMismatch']}"),
            Check(
                "requests",
                not self.wrong_requests,
                f"{self.wrong_requests} of {reads} reads sent other requests than were planned",
            ),
            Check(
                "bytes",
                not self.wrong_bytes,
                f"{self.wrong_bytes} of {reads} reads got other than what the plan asks for",
            ),
        ]
