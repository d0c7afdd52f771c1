"""What managed stores tell of their own administration: what an evaluator meets who asks for users and their keys.

Asked by the coordinator, with the system's own tool, before the clients of a probe start. A second key that is made for
the question is removed at once; nothing of any key is told. May import: `core`.
"""

from collections.abc import Iterable

from storelab.core.answers import DIFFERS, NO, YES, Told

USERS, KEYS = QUESTIONS = ("users listed", "several keys per user")
TOOL_S = 30.0  # seconds that a tool may take


def listed(tool: str, found: Iterable[str], own: Iterable[str]) -> Told:
    """Whether the users that a tool lists are those that storelab uses."""
    found, own = set(found), set(own)
    there = len(found & own)
    answer = YES if there == len(own) else DIFFERS if there else NO
    return Told(USERS, answer, f"{tool}: {len(found)} users, {there} of the {len(own)} that storelab uses")
