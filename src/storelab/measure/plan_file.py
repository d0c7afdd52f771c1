"""`raw/plan.json`, and the changes since it was written: all records of a campaign have the same settings.

This module may import `core` and `host`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from storelab.core import integrity, plan, records
from storelab.core.config import Config
from storelab.core.engines import CATALOGUE, EMBEDDED
from storelab.core.errors import UserError
from storelab.core.model import Plan, Point, Workload
from storelab.host import environment

# All settings of a store change what is measured, except these.
IMMATERIAL = ("link", "port", "address", "directory", "profile", "ca_file", "max_volumes")


def current(config: Config, points: list[Point], workloads: Mapping[str, Workload]) -> Plan:
    """Return the plan as it would be written now, with the software that measures.

    The software is the packages of the engines and of the embedded store.
    """
    used = {part.point.axes["engine"] for p in points for part in p.parts()} & CATALOGUE.keys()
    measuring = {*EMBEDDED, *(package for name in used for package in CATALOGUE[name].packages)}
    software = {k: v for k, v in environment.packages().items() if k in measuring}
    return replace(plan.full_plan(config, points, workloads), software=software, file=file_of(config))


def file_of(config: Config) -> str:
    """Return the path of the campaign file for the plan, without folders of this machine."""
    path = Path(config.campaign)
    return path.name if path.is_absolute() else config.campaign


def differences(config: Config, points: list[Point]) -> list[str]:
    """Return one line for each setting that differs from the setting of measured points. Axes are not settings."""
    if not (config.raw / integrity.PLAN).exists():
        return []
    old = Plan.from_json(integrity.plan_of(config.raw))
    before = {p.key: p for p in old.points}
    measured = [p for p in points if p.key in before and integrity.has(config.raw, p.key)]
    out: list[str] = []
    for point in measured:
        then = before[point.key]
        fixed, was = _settings(point.fixed), _settings(then.fixed)
        out += _changes(f"sweep {point.sweep}", was, fixed, sorted({*fixed, *was}))
        user_keys = ("file", "tree")  # keys of a ROOT file of the user
        for part, old_part in zip(point.parts(), then.parts(), strict=False):
            name = part.point.axes.get("file_size")
            out += _changes(f"files.{name}", old_part.point.dataset or {}, part.point.dataset or {}, user_keys)
    for name in {p.store for p in measured}:
        now = config.stores[name].model_dump(mode="json")
        planned = _with_defaults(config.stores[name], old.stores.get(name, {}))
        out += _changes(f"store {name}", planned, now, sorted({*planned, *now} - {*IMMATERIAL}))
    if measured:
        software = old.software or {}
        out += _changes("", software, environment.packages(), software)
    return list(dict.fromkeys(out))


def _settings(fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a point that are not axes. Settings of roles have the role's name as prefix."""
    out = {k: v for k, v in fixed.items() if k != "roles"}
    for role in fixed.get("roles", ()):
        settings = {k: v for k, v in role.items() if k in ("workload", "begin_ns", "end_ns")} | role["fixed"]
        out |= {f"roles.{role['name']}.{k}": v for k, v in settings.items()}
    return out


def _changes(place: str, then: Mapping[str, Any], now: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    """Return a line for each of the keys whose value has changed."""
    head, out = f"{place}: " if place else "", []
    for k in keys:
        was, value = (_by_name(settings.get(k)) for settings in (then, now))
        if isinstance(was, Mapping) and isinstance(value, Mapping):
            out += [f"{head}{k}{line}" for line in _changes("", *_dotted(was, value))]
        elif was != value:
            out.append(f"{head}{k} was {_cut(was)}, is {_cut(value)}")
    return out


def _dotted(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return the arguments of `_changes` for one level deeper."""
    was, value = ({f".{k}": v for k, v in settings.items()} for settings in (then, now))
    return was, value, sorted({*was, *value})


def _by_name(value: Any) -> Any:
    """Return a list of named items, such as roles, as a mapping by name; other values are unchanged."""
    named = isinstance(value, list) and value and all(isinstance(v, Mapping) and "name" in v for v in value)
    return {v["name"]: v for v in value} if named else value


def _cut(value: Any, most: int = 100) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _with_defaults(settings: Any, planned: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a store from an older plan. Settings that are missing there have their defaults."""
    model = type(settings)
    needed = {name: getattr(settings, name) for name, field in model.model_fields.items() if field.is_required()}
    defaults: dict[str, Any] = model.model_validate(needed).model_dump(mode="json")
    return defaults | dict(planned)


def refuse_dropped(config: Config, points: list[Point]) -> None:
    """Raise UserError if there are records whose points are not in the plan."""
    dropped = integrity.unknown(config.raw, (p.key for p in points))
    if not dropped:
        return
    before = integrity.plan_of(config.raw) if (config.raw / integrity.PLAN).exists() else {"points": ()}
    known = {p["key"] for p in before["points"]}.issuperset(dropped)
    count = f"{len(dropped)} {'record' if len(dropped) == 1 else 'records'}"
    if not known:
        whose = f"{count} without a plan"
    elif before.get("file", file_of(config)) == file_of(config):
        whose = f"{count} that it planned before"
    else:
        whose = f"{count} of campaign file {before['file']}"
    raise UserError(
        f"campaign file {file_of(config)}",
        f"plans {len(points)} points as {config.name!r}, but not {whose} in {config.raw}, the first is {dropped[0]}",
        "add these points to the plan, give this campaign another `name`, or remove these records",
    )


def refuse_differences(config: Config, points: list[Point]) -> None:
    """Raise UserError if a plan drops records, differs from measured points, or belongs to another campaign."""
    if (path := config.raw / integrity.PLAN).exists():
        campaign = integrity.plan_of(config.raw).get("campaign", {})
        if (name := campaign.get("name", config.name) if isinstance(campaign, dict) else None) != config.name:
            problem = f"is the plan of campaign {name!r}, not of {config.name!r}"
            raise UserError(str(path), problem, "restore it, or remove it and run `storelab plan --write`")
    refuse_dropped(config, points)
    if found := differences(config, points):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise UserError(
            f"campaign {config.name}",
            f"its records were measured with other settings: {found[0]}{more}",
            "restore the setting, give the campaign another name, or remove its records",
        )


def up_to_date(config: Config, points: list[Point], workloads: Mapping[str, Workload]) -> bool:
    """Return whether `raw/plan.json` has the content that would be written now."""
    path = config.raw / integrity.PLAN
    if not path.exists() or records.damage(path):
        return False
    now, written = records.as_json(current(config, points, workloads).to_json()), records.read_json(path)
    written |= {"file": written.get("file", now["file"])}  # older plans do not have this key
    return bool({k: v for k, v in written.items() if k not in records.SUM_KEYS} == now)


def write(config: Config, points: list[Point], workloads: Mapping[str, Workload]) -> None:
    """Write `raw/plan.json` unless it is up to date.

    Raise UserError if the campaign is sealed, or its points were measured with other settings.
    """
    refuse_differences(config, points)
    if up_to_date(config, points, workloads):
        return
    if records.sealed(config.raw):
        raise UserError(
            str(config.raw), "the campaign is sealed and its plan differs", "give the new campaign another name"
        )
    records.write_summed(config.raw / integrity.PLAN, current(config, points, workloads).to_json())
