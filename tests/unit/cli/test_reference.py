"""config.schema.json: it accepts whatever the models accept, and refuses what editors can mark as wrong."""

import datetime
import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema
import yaml
from command_line import in_process
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT
from pydantic import BaseModel, TypeAdapter, ValidationError

from storelab import stores
from storelab.cli import reference
from storelab.core import config, plan, renamed, units
from storelab.core.errors import UserError
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS

SCHEMA = json.loads((ROOT / "config.schema.json").read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
FILES = [ROOT / "config.yaml", *sorted((ROOT / "campaigns").glob("*.yaml")), *(ROOT / "envs").glob("[mt]*.yaml")]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
NAMED = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")
BASE = {
    "campaign": "small",
    "name": "small",
    "calibrate": False,
    "stores": {"far": {"kind": "s3", "endpoint": "https://s3.example.org"}, "near": {"kind": "ceph"}},
    "stores_to_measure": ["far"],
    "files": {"mine": {"path": "mine.root"}},
    "mixes": {"reads": {"get": 1}},
    "sweeps": {
        "up": {"workload": "put"},
        "two": {"roles": {"writers": {"workload": "put"}, "readers": {"workload": "get"}}},
    },
}
REFUSED = re.split(
    r"\s*;\s*",
    """repetition=3; measure='yes'; repetitions=0; repetitions=1.5; repetitions=true; scale=0; name=a/b; name=null;
campaign=3; title=2026-01-01; authors=me; stores_to_measure=[]; calibrate=1; seed=-1; gang_timeout=60; layout=paper;
limits=null; limits.object=1; limits.objects=0; limits.error_fraction=2; limits.throughput=100; state=null; results='';
limits.stored_bytes=4 KB; launcher.kind=pbs; launcher.hosts=[-x]; launcher.port=70000; launcher.nodes=0;
launcher.clock_bound=1 m; launcher.address=a b; drop_caches=maybe; stores.far.kind=s4; stores.far.endpiont=x;
stores.far.osds=3; stores.far.addressing=host; stores.far.link=10; stores.near.osds=many; stores.near.read_only=true;
stores.near.osd_size=1 gb; stores.a b.kind=nullserver; sweeps.up.workload=putt; sweeps.up.duration=10;
sweeps.up.durations=10 s; sweeps.up.parts=1001; sweeps.up.bins=1; sweeps.up.stores=far; sweeps.up.zip=[1];
sweeps.up.zip.clients=1; sweeps.up.axes.client=1; sweeps.up.axes.clients=[]; sweeps.up.axes.clients=null;
sweeps.up.axes.clients=two; sweeps.up.axes.clients=0; sweeps.up.axes.object_size=4 KB; sweeps.up.axes.object_size=4;
sweeps.up.axes.engine=scp; sweeps.up.axes.volume_fraction=1; sweeps.two.axes.clients=1;
sweeps.two.roles.readers.axes.buckets=1; sweeps.two.roles.readers.begin=10; sweeps.two.roles.readers.workload=probe;
sweeps.two.roles.a_b.workload=get; sweeps.two.roles.readers.axis=1; files.mine.pth=a; files.mine.path='';
mixes.reads.get=-1; mixes.reads.got=1; sizes.s.fixed=10; sizes.s.sigma=6; faults.f=[];
faults.f=[{at: 10, act: kill, actor: x}]; faults.f=[{at: 1s, act: kil, actor: x}]; release.factr=1; release.tree=x;
release.chunks.minimum=8; figures.fig.table=throughputs; figures.Fig.table=throughput; claims.c.rule=slop;
claims.c.below_link=0; claims.C.rule=slope; stores.new.endpiont=x; sweeps.two.axes.part=2""",
)


def problems(document: Any) -> list[str]:
    """Return what the schema refuses, with the keys as JSON has them."""
    as_json = json.loads(json.dumps(document, default=lambda value: [str(value)]))
    return [f"{list(error.path)}: {error.message}"[:200] for error in VALIDATOR.iter_errors(as_json)]


def accepted(document: dict[str, Any]) -> bool:
    """Return whether the models accept a configuration, and the plan its axes."""
    try:
        plan.make(Config.model_validate(renamed.current(document)), WORKLOADS)
    except (UserError, ValidationError):
        return False
    return True


def test_schema_is_valid_and_describes_every_key():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    models = [SCHEMA, *(SCHEMA["$defs"][name] for name in SCHEMA["$defs"] if not name.startswith("axis."))]
    for model in models:
        keys = {key: value for key, value in model["properties"].items() if "const" not in value}
        assert [key for key, value in keys.items() if not value.get("description")] == [], model["description"]
    assert SCHEMA["properties"]["repetitions"]["description"] == Config.model_fields["repetitions"].description


def test_shipped_files_are_valid_and_name_the_schema():
    assert {str(path): problems(yaml.safe_load(path.read_text())) for path in FILES} == {str(p): [] for p in FILES}
    for path in FILES[: -len([*(ROOT / "envs").glob("[mt]*.yaml")])]:
        (named,) = NAMED.findall(path.read_text().partition("\n")[0] + "\n")
        assert (path.parent / named).resolve() == ROOT / "config.schema.json"


def test_examples_of_the_docs_are_valid():
    texts = [text for page in PAGES for text in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)]
    blocks = [block for text in texts if "…" not in text and isinstance(block := yaml.safe_load(text), dict)]
    blocks = [block for block in blocks if block.keys() <= Config.model_fields.keys()]
    assert len(blocks) > 30 and [(block, found) for block in blocks if (found := problems(block))] == []


def test_wrong_keys_and_values_are_refused():
    assert accepted(BASE) and not problems(BASE)
    documents = {item: config.merge(BASE, config.parse_set([item])) for item in REFUSED}
    assert [item for item, document in documents.items() if accepted(document)] == []
    assert [item for item, document in documents.items() if not problems(document)] == []


def test_outdated_pages_end_with_exit_code_1(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "pages", lambda: {"docs/a.md": "new\n", "b.json": "{}\n"})
    assert in_process(tmp_path, "docs") == (0, "docs/a.md\nb.json\n", "")
    assert in_process(tmp_path, "docs", "--check") == (0, "", "")
    (tmp_path / "b.json").write_text("{ }\n")
    code, out, err = in_process(tmp_path, "docs", "--check")
    assert (code, out) == (1, "") and err == "storelab: out of date with the code: b.json; run `storelab docs`\n"
    assert (tmp_path / "b.json").read_text() == "{ }\n"


def test_old_names_are_accepted_and_marked():
    for path, new in renamed.KEYS.items():
        *above, old = path.split(".")
        models = [
            part for part in reference._parts(SCHEMA, above, SCHEMA["$defs"]) if new in part.get("properties", {})
        ]
        assert models, path
        assert all(m["properties"][old] == {**m["properties"][new], "deprecated": True} for m in models), path
    old = {"sweeps": {"v": {"workload": "read_volume", "scaled_axes": ["clients"], "axes": {"scale": ["S", "M"]}}}}
    assert not problems({"use_stores": ["far"], "claims": {"c": {"says": "It is fast."}}, **old})


NUMBERS = ["1", " 2 ", "1.0", "1_000", "+3", "0.5", "1e-3", ".5", "5.", "1E3", 1, 2, 2.0, 0.5, 1e300, 100, "07", "-1"]
UNITS = ["1 s", "10MB", " 1.5 Gbit/s ", "30 %", "100 ms", "4 KiB", "1 d", "1.50  kB", "2 min", "1 B/s", "5%", "8bit/s"]
TEXTS = [
    "a",
    "a-b.c",
    "a_b",
    "true",
    "false",
    "none",
    "S",
    "mine",
    "warp",
    "default",
    "x" * 70,
    "ü",
    "1:2",
    "[::1]",
    "",
]
OTHERS = [None, True, False, [], {}, [1, "a"], ["a"], {"a": 1}, {1: 2}, {"1 kB": "3"}, datetime.date(2026, 1, 1)]
POOL = [*NUMBERS, *UNITS, *TEXTS, *OTHERS, "least", ">= 1 MB", [">= 1 MB", 3], {"size": ["1 kB"], "count": [1]}]


def inner_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type, and those in their fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from inner_models(field.annotation)
    for part in get_args(annotation):
        yield from inner_models(part)


def every_model() -> list[type[BaseModel]]:
    """Return the models of the configuration and of every kind of store, each once."""
    found = [Config, *(stores.load(kind).Settings for kind in stores.KINDS)]
    return list(dict.fromkeys(model for outer in found for model in inner_models(outer)))


def test_each_field_accepts_what_its_model_accepts():
    """Each value of the pool in each field alone: the type of the field decides, without rules of the whole model."""
    fields = [
        (model, name, field)
        for model in every_model()
        for name, field in model.model_fields.items()
        if name not in ("stores", "sweeps", "workload", "axes", "table")
    ]
    assert len(fields) > 250
    wrong = []
    for model, name, _ in fields:
        schema = model.model_json_schema(schema_generator=reference.LayerSchema)
        checked = jsonschema.Draft7Validator(schema["properties"][name] | {"$defs": schema.get("$defs", {})})
        wrong += [
            (model.__name__, name, value) for value in POOL if takes(model, name, value) and not valid(checked, value)
        ]
    assert not wrong


def takes(model: type[BaseModel], name: str, value: Any) -> bool:
    """Return whether the model accepts this value of one field, as far as it depends on this field only."""
    try:
        model.__pydantic_validator__.validate_assignment(model.model_construct(), name, value)
    except ValidationError as error:
        return all(found["loc"][:1] != (name,) for found in error.errors())
    except (AttributeError, TypeError):  # in a rule of the whole model, which misses other fields
        pass
    return True


def valid(checked: jsonschema.Draft7Validator, value: Any) -> bool:
    return checked.is_valid(json.loads(json.dumps(value, default=str)))


def test_each_axis_accepts_what_the_plan_accepts():
    wrong = []
    for axis in (axis for workload in WORKLOADS.values() for axis in workload.axes):
        checked = jsonschema.Draft7Validator(reference._axis_schema(axis))
        for value in [*POOL, *axis.choices, axis.text(axis.default)]:
            try:
                axis.parse(value, "")
            except UserError:
                continue
            if not isinstance(value, list | dict | None) and not (valid(checked, value) and valid(checked, [value])):
                wrong.append((axis.name, value))
    assert not wrong


@given(st.text("0123456789._+-eE \t", max_size=8))
def test_numbers_in_quotes_are_accepted_as_pydantic_converts_them(text):
    for kind, pattern in ((int, reference.WHOLE_NUMBER), (float, reference.NUMBER)):
        try:
            TypeAdapter(kind).validate_python(text)
        except ValidationError:
            continue
        assert re.search(pattern, text), (kind, text)


@given(
    st.from_regex(
        re.compile(r"\s?[0-9]{1,2}(\.[0-9]{1,3})? ?([kKMGT]?i?(B|bit)(/s)?|[num]?s|min|h|d|%) ?", re.ASCII),
        fullmatch=True,
    )
)
def test_patterns_of_units_accept_what_the_units_accept(text):
    for kind in units.KINDS:
        try:
            units.parse(text, kind, "")
        except UserError:
            continue
        assert re.search(units.pattern(kind), text), (kind, text)
