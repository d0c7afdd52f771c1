"""Define the faults of a campaign: actions on daemons, drives and links of a store, each with its time in the run.

For a point, `resolved` turns the configuration into a list of actions with times after the agreed start. The plan,
`job.json` and the record use this form.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema, model_validator

from storelab.core import units
from storelab.core.axes.roles import ACTS, LOSSES, NONE, UNDOES, UPGRADE, USER_ACTS
from storelab.core.config_types import Duration, Name, Rate, StrictModel, Text, json_list
from storelab.core.errors import UserError, shown

MS = 10**6
_SHARE = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*%\s*\Z")


@dataclass(frozen=True)
class Moment:
    """A time in a run: nanoseconds from the agreed start, or a percentage of the run."""

    ns: int | None
    percent: float | None = None

    def __str__(self) -> str:
        return f"{self.percent:g} %" if self.ns is None else f"{self.ns / 1e9:g} s"

    def after(self, duration_ns: int, scale: float = 1.0) -> int:
        """Return the time in ns after the start of a run, rounded to whole ms. duration_ns: already scaled."""
        if self.ns is not None:
            return round(self.ns * scale / MS) * MS
        return round(duration_ns * (self.percent or 0) / 100 / MS) * MS


def _moment(value: Any) -> Moment:
    if isinstance(value, Moment):
        return value
    if isinstance(value, str) and (found := _SHARE.match(value)):
        if (percent := float(found[1])) >= 100:
            raise ValueError(f"{shown(value)} is not within the run; set less than 100 %")
        return Moment(None, percent)
    try:
        return Moment(units.parse(value, "duration", ""))
    except UserError as error:
        raise ValueError(f"{error.problem}; write it like 10 s, 500 ms or 30 %") from None


def _percent(value: Any) -> float:
    found = _SHARE.match(value) if isinstance(value, str) else None
    if not found or not 0 < float(found[1]) <= 100:
        raise ValueError(f"{shown(value)} is not a percentage; write it like 1 %, at most 100 %")
    return float(found[1])


def _several(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and (twice := next((v for i, v in enumerate(names) if v in names[:i]), None)):
        raise ValueError(f"{shown(twice)} is listed twice; list it once")
    return names


def _fault_name(value: Any) -> Any:
    if value == NONE:
        raise ValueError(f"{NONE!r} means that the store is not disturbed; choose another name for the fault")
    return value


_SHARE_FORM = _SHARE.pattern.replace(r"\Z", "$")  # in the dialect of JSON Schema
_JSON_AT = {
    "type": "string",
    "pattern": f"{units.pattern('duration')}|^{_SHARE_FORM}",
    "patternErrorMessage": "write it like 10 s, 500 ms or 30 %",
}
At = Annotated[Any, PlainValidator(_moment), WithJsonSchema(_JSON_AT)]
Percent = Annotated[
    float, BeforeValidator(_percent), WithJsonSchema({"type": ["string", "number"], "pattern": f"^{_SHARE_FORM}"})
]
Actors = Annotated[list[Text], BeforeValidator(_several), json_list(type="string")]
FaultName = Annotated[Name, BeforeValidator(_fault_name)]
KEYS_OF_ACTS = {  # keys that only some actions use
    "how": ("remove_drive",),
    "delay": ("slow",),
    "loss": ("slow",),
    "rate": ("slow",),
    "command": ("command",),
    "undo": ("command",),
    "to": (UPGRADE,),
}


class Act(StrictModel):
    """One action on one actor, or on several actors at the same time."""

    at: At = Field(
        description="Time after the agreed start (`10 s`, scaled like durations), or a percentage of the run (`30 %`)."
    )
    act: Literal[ACTS] = Field(description="The action, see docs/faults.md.")  # type: ignore[valid-type]
    actor: Actors = Field(
        default_factory=list,
        description="Target: a daemon (`storelab status`), `data.0`, `front.0` …, or a list of them.",
    )
    how: Literal["gone", "read-only"] = Field(
        "gone", description="For `remove_drive`: the drive is renamed (`gone`) or becomes read-only."
    )
    delay: Duration | None = Field(None, description="For `slow`: delay of each packet from the actor.")
    loss: Percent | None = Field(None, description="For `slow`: percentage of the actor's packets that are lost.")
    rate: Rate | None = Field(None, description="For `slow`: maximum rate at which the actor sends.")
    command: Text | None = Field(None, description="For `command`: a shell command; a non-zero status is a failure.")
    undo: Text | None = Field(None, description="For `command`: the command that reverts it after the run.")
    to: Text | None = Field(None, description="For `upgrade`: the new version of the actor's program.")

    @model_validator(mode="after")
    def _fits(self) -> "Act":
        for key, acts in KEYS_OF_ACTS.items():
            if key in self.model_fields_set and self.act not in acts:
                raise ValueError(f"the action {self.act!r} does not use {key!r}; only {' and '.join(acts)} use it")
        if self.act in USER_ACTS and self.command is None:
            raise ValueError("'command' is missing; set it to a shell command")
        if self.act not in USER_ACTS and not self.actor:
            raise ValueError("'actor' is missing; set it to an actor like data.0, or to a list")
        if self.act == UPGRADE and not self.to:
            raise ValueError("'to' is missing; set it to a version like '4.48'")
        if self.act == "slow" and self.delay is None and self.loss is None and self.rate is None:
            raise ValueError("`slow` has no parameter; set `delay`, `loss` or `rate`")
        return self

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that are set, without actor and time, as plain values."""
        names = {"delay": "delay_ns", "loss": "loss_percent", "rate": "rate_bytes_per_s"}
        given = {key for key, acts in KEYS_OF_ACTS.items() if self.act in acts and getattr(self, key) is not None}
        return {names.get(key, key): getattr(self, key) for key in sorted(given)}


def resolved(acts: Sequence[Act], duration_ns: int, scale: float, place: str) -> list[dict[str, Any]]:
    """Return the actions of a fault in a run, in order of time, as plain values.

    Parameters
    ----------
    acts
        Actions of the fault.
    duration_ns
        Duration of the run, already scaled.
    scale
        Factor on the times of the actions.
    place
        Path of the fault in the configuration, for messages.

    Raises
    ------
    UserError
        An action is not within the run.
    """
    out = []
    for i, act in enumerate(acts):
        if (at := act.at.after(duration_ns, scale)) >= duration_ns:
            raise UserError(
                f"{place}.{i}.at",
                f"{act.act} at {act.at} is not within the run of {units.human_duration(duration_ns)}",
                "set an earlier time, or a longer `duration` of the sweep",
            )
        out.append({"at_ns": at, "act": act.act, "actors": list(act.actor), **act.parameters()})
    return sorted(out, key=lambda a: a["at_ns"])


def most_lost(acts: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the largest set of actors that are unavailable at the same time.

    acts: the result of `resolved`, with resolved actors.
    """
    away: dict[str, set[str]] = {}
    most: set[str] = set()
    for act in acts:
        for actor in act["actors"]:
            if act["act"] in LOSSES:
                away.setdefault(actor, set()).add(act["act"])
            for harm in UNDOES.get(act["act"], ()):
                away.get(actor, set()).discard(harm)
        here = {actor for actor, harms in away.items() if harms}
        most = here if len(here) > len(most) else most
    return most
