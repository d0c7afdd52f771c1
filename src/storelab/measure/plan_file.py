"""`raw/plan.json` and what changed since it was written: records of one campaign never mix two settings (room
`measure`)."""

from collections.abc import Mapping
from typing import Any

from storelab.core import plan, records
from storelab.core.config import Config
from storelab.core.engines import CATALOGUE, EMBEDDED
from storelab.core.errors import UserError
from storelab.core.model import Point, Workload
from storelab.host import environment

# Of a store's settings these change what is measured; addresses, ports and folders do not.
IMMATERIAL = ("port", "address", "directory", "profile", "ca_file", "max_volumes")


def current(config: Config, points: list[Point], workloads: Mapping[str, Workload]) -> dict[str, Any]:
    """The plan as it would be written now, with the software that measures: packages of its engines, and
    of the embedded store."""
    used = {p.axes["engine"] for p in points} & CATALOGUE.keys()
    measuring = {*EMBEDDED, *(package for name in used for package in CATALOGUE[name].packages)}
    software = {k: v for k, v in environment.packages().items() if k in measuring}
    return plan.to_json(config, points, workloads) | {"software": software}


def differences(config: Config, points: list[Point]) -> list[str]:
    """Settings that are no axis and differ from those of points already measured; one line each."""
    path = config.raw / "plan.json"
    if not path.exists():
        return []
    old = records.read_json(path)
    before = {p["key"]: p for p in old["points"]}
    measured = [p for p in points if p.key in before and (config.raw / p.key / "run.json").exists()]
    out: dict[str, None] = {}
    for point in measured:
        then = before[point.key]
        for name in sorted({*point.fixed, *then["fixed"]}):
            a, b = then["fixed"].get(name), point.fixed.get(name)
            if a != b:
                out[f"sweep {point.sweep}: {name} was {a}, is {b}"] = None
        for name in ("file", "tree"):  # of a ROOT file of the user's own
            a, b = (then.get("dataset") or {}).get(name), (point.dataset or {}).get(name)
            if a != b:
                out[f"files.{point.axes['scale']}: {name} was {a}, is {b}"] = None
    if measured:
        for name in {p.store for p in measured}:
            settings = config.stores[name]
            now = settings.model_dump(mode="json")
            a = _with_defaults(settings, old["stores"].get(name, {}))
            changed = sorted(k for k in {*a, *now} - {*IMMATERIAL} if a.get(k) != now.get(k))
            out |= {f"store {name}: {k} was {a.get(k)}, is {now.get(k)}": None for k in changed}
        now = environment.packages()
        out |= {f"{k} was {v}, is {now.get(k)}": None for k, v in old.get("software", {}).items() if now.get(k) != v}
    return list(out)


def _with_defaults(settings: Any, told: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a store as an older plan tells them; those that it did not know yet stood at their default."""
    needed = {
        name: getattr(settings, name) for name, field in type(settings).model_fields.items() if field.is_required()
    }
    return type(settings).model_validate(needed).model_dump(mode="json") | dict(told)


def refuse_differences(config: Config, points: list[Point]) -> None:
    """Raises UserError where settings differ from those of points already measured."""
    if found := differences(config, points):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise UserError(
            f"campaign {config.name}",
            f"its records were measured with other settings: {found[0]}{more}",
            "set it back, give the campaign another name, or remove its records",
        )


def up_to_date(config: Config, points: list[Point], workloads: Mapping[str, Workload]) -> bool:
    """Whether `raw/plan.json` says what would be written now."""
    path = config.raw / "plan.json"
    return path.exists() and records.read_json(path) == records.as_json(current(config, points, workloads))


def write(config: Config, points: list[Point], workloads: Mapping[str, Workload]) -> None:
    """Write `raw/plan.json` unless it says the same already. Raises UserError for a sealed campaign, or other
    settings."""
    refuse_differences(config, points)
    if up_to_date(config, points, workloads):
        return
    if records.sealed(config.raw):
        raise UserError(
            str(config.raw), "the campaign is sealed and its plan differs", "give the new campaign another name"
        )
    records.write_json(config.raw / "plan.json", current(config, points, workloads))
