"""Check ro-crate-metadata.json against the rules of its specifications.

The rules are written down here from the texts that docs/artefact.md names: the MUST of RO-Crate 1.1, Workflow RO-Crate
1.0, Process Run Crate 0.5 and Workflow Run Crate 0.5. Of their advice, only one rule is checked: everything that is
referred to exists. roc-validator checks the same for every crate, but it fetches the context from the network, and
needs a `rich` older than 14.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any
from urllib.parse import quote, unquote

import pytest
import yaml

from storelab.analysis.artefact import members

ABOUT = members.About(
    name="demo",
    title="A demonstration",
    authors=("A. Tester", "B. Tester & Sons"),
    license="CC-BY-4.0",
    folder="results/demo",
    begin="2026-05-04T03:02:01+00:00",
    end="2026-05-06T03:02:01+00:00",
    points=5,
    failed=1,
    software=(("SeaweedFS", "4.48"), ("storelab", "0.1.0 abc"), ("an engine", "")),
    storelab="0.2.0",
)
RUN = "raw/seaweedfs/get/clients~0001_rep~001"
MADE = ("raw/plan.json", f"{RUN}/run.json", f"{RUN}/ops.0.parquet", "tables/points.csv", "figures/index.json")
NAMES = ["Snakefile", "config.yaml", "campaigns/demo.yaml", "envs/requirements.lock", "paper/with a space + 100%.tex"]
NAMES += [*(f"results/demo/{name}" for name in (*MADE, "paper.pdf")), "CITATION.cff", "README.md"]
FILES = {name: 10 * number for number, name in enumerate(NAMES, 1)}
CRATE = json.loads(members.metadata(ABOUT, FILES))
ACTIONS = {"CreateAction", "ActivateAction", "UpdateAction"}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def broken(metadata: dict[str, Any], files: dict[str, int]) -> Iterator[str]:
    """Return each rule that the crate breaks, in words."""
    graph = metadata["@graph"]
    by = {e.get("@id"): e for e in graph}

    def of(entity: Any, key: str) -> list[Any]:
        """Return the entities that a property refers to."""
        return [by[ref["@id"]] for ref in listed(entity.get(key)) if isinstance(ref, dict) and ref["@id"] in by]

    def types(entity: Any) -> set[str]:
        return set(listed(entity.get("@type")))

    # RO-Crate 1.1, "RO-Crate Metadata File", "Root Data Entity", "Data Entities", "Appendix: JSON-LD"
    if "https://w3id.org/ro/crate/1.1/context" not in listed(metadata["@context"]):
        yield "the context is that of 1.1"
    if len(by) != len(graph) or not all(e.get("@id") and e.get("@type") for e in graph):
        yield "each entity has a type, and a separate @id"
    for value in (v for e in graph for key, values in e.items() if key[0] != "@" for v in listed(values)):
        if isinstance(value, dict) and set(value) != {"@id"}:
            yield "the graph is flat"
    descriptor, root = by.get("ro-crate-metadata.json", {}), by.get("./", {})
    if types(descriptor) != {"CreativeWork"} or descriptor.get("about") != {"@id": "./"}:
        yield "the metadata file is a CreativeWork about the root"
    if not any(r["@id"].startswith("https://w3id.org/ro/crate/1.1") for r in listed(descriptor.get("conformsTo"))):
        yield "the metadata file conforms to a version of RO-Crate"
    if "Dataset" not in types(root):
        yield "the root is a Dataset"
    for key in ("name", "description", "datePublished", "license"):
        if not root.get(key):
            yield f"the root has {key}"
    try:
        date.fromisoformat(str(root.get("datePublished"))[:10])
    except ValueError:
        yield "datePublished is ISO 8601, to the day at least"
    reached, todo = {"./"}, [root]
    while todo:
        for part in of(todo.pop(), "hasPart"):
            if part["@id"] not in reached:
                reached.add(part["@id"])
                todo.append(part)
    for entity in graph:
        name, data = entity["@id"], types(entity) & {"File", "Dataset"}
        if data and name not in reached:
            yield "each file and folder hangs at the root by hasPart"
        if data and not re.fullmatch(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})+", name):
            yield "an @id is a URI path"
        if "File" in data and unquote(name) not in files:
            yield "a file is in the pack"
        if "Dataset" in data and name != "./" and not (name.endswith("/") and any(f.startswith(name) for f in files)):
            yield "a folder is in the pack, and its name ends in /"
    for name in files:
        if quote(name, safe="/~") not in reached:
            yield "the crate lists each file of the pack"
    for ref in (v for e in graph for values in e.values() for v in listed(values) if isinstance(v, dict)):
        if not ref["@id"].startswith(("http://", "https://")) and ref["@id"] not in by:
            yield "what is referred to is there"

    # Workflow RO-Crate 1.0, "Main Workflow", "Crate"
    main = (of(root, "mainEntity") or [{}])[0]
    if not types(main) >= {"File", "SoftwareSourceCode", "ComputationalWorkflow"}:
        yield "the main entity is a File, SoftwareSourceCode and ComputationalWorkflow"
    if not any("ComputerLanguage" in types(e) for e in of(main, "programmingLanguage")):
        yield "the workflow refers to its language"

    # Process Run Crate 0.5, "Overview", "Property Reference"; Workflow Run Crate 0.5, likewise
    for profile in ("process", "workflow"):
        fitting = [e for e in of(root, "conformsTo") if f"/ro/wfrun/{profile}/" in e["@id"]]
        if not any("CreativeWork" in types(e) and e.get("name") and e.get("version") for e in fitting):
            yield f"the root conforms to the profile {profile}, a CreativeWork with name and version"
    acts = [e for e in graph if types(e) & ACTIONS]
    tools = {"SoftwareApplication", "SoftwareSourceCode", "ComputationalWorkflow"}
    for act in acts:
        if not any(types(e) & tools for e in of(act, "instrument")):
            yield "an action has the program that ran as its instrument"
        if act not in of(root, "mentions"):
            yield "the root mentions the action"
        if not all(types(e) & {"File", "Dataset", "PropertyValue"} for k in ("object", "result") for e in of(act, k)):
            yield "an action takes and gives data"
    if not any(main in of(act, "instrument") for act in acts):
        yield "an action ran the main workflow"
    for parameter in [*of(main, "input"), *of(main, "output")]:
        if "FormalParameter" not in types(parameter):
            yield "inputs and outputs are FormalParameters"
    for parameter in (e for e in graph if "FormalParameter" in types(e)):
        if not parameter.get("additionalType"):
            yield "a FormalParameter has a type of data"
        if not any(parameter in of(e, "exampleOfWork") for e in of(parameter, "workExample")):
            yield "a FormalParameter and its example refer to each other"


def test_the_crate_follows_the_rules():
    assert list(broken(CRATE, FILES)) == []


def without(key: str, entity: str = "./") -> Callable[[Any], None]:
    return lambda by: by[entity].pop(key)


FAULTS: dict[str, Callable[[Any], Any]] = {
    "the metadata file is a CreativeWork about the root": without("about", "ro-crate-metadata.json"),
    "the metadata file conforms to a version of RO-Crate": without("conformsTo", "ro-crate-metadata.json"),
    **{f"the root has {key}": without(key) for key in ("name", "description", "license")},
    "datePublished is ISO 8601, to the day at least": lambda by: by["./"].update(datePublished="May 2026"),
    "each file and folder hangs at the root by hasPart": without("hasPart", "results/demo/tables/"),
    "the graph is flat": lambda by: by["./"].update(author={"@id": "#a", "name": "A."}),
    "a file is in the pack": lambda by: by["config.yaml"].update({"@id": "gone.yaml"}),
    "what is referred to is there": lambda by: by["#measured"].update(agent={"@id": "#nobody"}),
    "the main entity is a File, SoftwareSourceCode and ComputationalWorkflow": without("mainEntity"),
    "the workflow refers to its language": without("programmingLanguage", "Snakefile"),
    "the root conforms to the profile process, a CreativeWork with name and version": without("conformsTo"),
    "an action has the program that ran as its instrument": without("instrument", "#rebuilt"),
    "the root mentions the action": without("mentions"),
    "a FormalParameter has a type of data": without("additionalType", "#parameter-config.yaml"),
    "a FormalParameter and its example refer to each other": without("exampleOfWork", "results/demo/raw/"),
}


@pytest.mark.parametrize("rule", FAULTS)
def test_a_crate_that_breaks_a_rule_is_seen(rule):
    """Each rule finds the fault that is planted for it."""
    found = copy.deepcopy(CRATE)
    FAULTS[rule]({e["@id"]: e for e in found["@graph"]})
    assert rule in list(broken(found, FILES))


def test_missing_parts_are_not_described():
    files = {name: size for name, size in FILES.items() if "paper" not in name and "figures" not in name}
    content = json.loads(members.metadata(ABOUT, files))
    assert not list(broken(content, files)) and not [e for e in content["@graph"] if "figures" in e["@id"]]


def test_the_crate_says_when_by_whom_and_with_what():
    by = {e["@id"]: e for e in CRATE["@graph"]}
    assert (by["#measured"]["startTime"], by["#measured"]["endTime"]) == (ABOUT.begin, ABOUT.end)
    assert [by[a["@id"]]["name"] for a in by["./"]["author"]] == list(ABOUT.authors)
    assert by["./"]["datePublished"] == "2026-05-06"
    assert "5 points, 1 of them without a result" in by["./"]["description"]
    programs = [e for e in CRATE["@graph"] if e["@type"] == "SoftwareApplication"]
    versions = {(e["name"], e.get("softwareVersion", "")) for e in programs}
    assert versions == {*ABOUT.software, ("storelab", "0.2.0")}
    assert by["results/demo/tables/points.csv"] == {
        **{"@id": "results/demo/tables/points.csv", "@type": "File", "name": "results/demo/tables/points.csv"},
        **{"contentSize": "90", "encodingFormat": "text/csv"},
    }


def test_citation_and_deposit_have_what_their_formats_ask_for():
    """Check the required fields of both formats.

    Citation File Format 1.2.0 requires cff-version, message, title and authors. Zenodo's deposit metadata require type,
    title, creators and description.
    """
    content = yaml.safe_load(members.citation(ABOUT))
    assert (content["cff-version"], content["type"], content["title"]) == ("1.2.0", "dataset", ABOUT.title) and content[
        "message"
    ]
    assert [a["name"] for a in content["authors"]] == list(ABOUT.authors) and content["license"] == "CC-BY-4.0"
    assert str(content["date-released"]) == "2026-05-06" and content["references"][0]["version"] == "0.2.0"
    deposit = json.loads(members.zenodo(ABOUT))
    assert deposit["upload_type"] == "dataset" and deposit["license"] == "cc-by-4.0" and deposit["description"]
    assert deposit["creators"] == [{"name": name} for name in ABOUT.authors]
    assert deposit["publication_date"] == "2026-05-06"
