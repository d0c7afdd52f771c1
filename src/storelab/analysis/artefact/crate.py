"""What a pack is, for machines: `ro-crate-metadata.json` (RO-Crate 1.1 with the profiles Workflow RO-Crate 1.0, Process
Run Crate and Workflow Run Crate 0.5), `CITATION.cff`, `.zenodo.json`.

Plain JSON-LD, and no time but those of the records: the same campaign gives the same text.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import yaml

METADATA, CITATION, ZENODO = "ro-crate-metadata.json", "CITATION.cff", ".zenodo.json"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
WORKFLOW_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    WORKFLOW_CRATE: ("Workflow RO-Crate", "1.0"),
}
BIOSCHEMAS = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
WORKFLOW, README = "Snakefile", "README.md"
KINDS = {
    ".json": "application/json",
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".html": "text/html",
    ".yaml": "application/yaml",
    ".cff": "application/yaml",
    ".tex": "text/x-tex",
    ".md": "text/markdown",
    ".ipynb": "application/x-ipynb+json",
}
SNAKEMAKE = {
    "@id": "https://w3id.org/workflowhub/workflow-ro-crate#snakemake",
    "@type": "ComputerLanguage",
    "name": "Snakemake",
    "identifier": {"@id": "https://snakemake.github.io"},
    "url": {"@id": "https://snakemake.github.io"},
}
CODE_LICENSE = "BSD-3-Clause"  # of the workflow, which is storelab's own
KEYWORDS = ("storage", "benchmark", "High Energy Physics")
Entity = dict[str, Any]


@dataclass(frozen=True)
class About:
    """Of a campaign. folder: of its results in the pack, as `results/demo`; begin, end: of its measurements, ISO 8601,
    UTC; software: (name, version) of what measured and was measured; failed: points without a result."""

    name: str
    title: str
    authors: tuple[str, ...]
    license: str
    folder: str
    begin: str
    end: str
    points: int
    failed: int
    software: tuple[tuple[str, str], ...]
    storelab: str

    @property
    def description(self) -> str:
        systems = ", ".join(f"{name} {version}".strip() for name, version in self.software)
        failed = f", {self.failed} of them without a result" if self.failed else ""
        return (
            f"Raw records, tables and figures of the campaign {self.name} of storelab: {self.points} points{failed}, "
            f"measured from {self.begin[:10]} to {self.end[:10]} with {systems}."
        )

    @property
    def date(self) -> str:
        return self.end[:10]


def metadata(about: About, files: Mapping[str, int]) -> bytes:
    """`ro-crate-metadata.json` of a pack with these files: name -> size."""
    folders = {f"{about.folder}/{kind}/": told for kind, told in FOLDERS.items()}
    folders = {name: told for name, told in folders.items() if _below(name, files)}
    outside = [name for name in files if not any(name.startswith(folder) for folder in folders)]
    results = [*(f for f in folders if not f.endswith("/raw/")), *(n for n in _papers(about) if n in files)]
    raw, asked = f"{about.folder}/raw/", ["config.yaml", *_below("campaigns/", files)]
    passed = sorted({*asked, raw, *results})
    programs = [_program(name, version) for name, version in about.software]
    authors = _ids(f"#author-{number}" for number in range(1, len(about.authors) + 1))
    actions = [
        _action("#measured", "Measuring the campaign", asked, [raw], authors)
        | {"startTime": about.begin, "endTime": about.end},
        _action(
            "#rebuilt", "Making tables, figures and paper from the records", ["config.yaml", raw], results, authors
        ),
    ]
    graph = [
        _descriptor(),
        _root(about, [*folders, *outside], authors, programs),
        *({"@id": uri, "@type": "CreativeWork", "name": n, "version": v} for uri, (n, v) in PROFILES.items()),
        {"@id": BIOSCHEMAS, "@type": "CreativeWork", "name": "ComputationalWorkflow", "version": "1.0-RELEASE"},
        *(_license(name) for name in sorted({about.license, CODE_LICENSE})),
        *({"@id": f"#author-{n}", "@type": "Person", "name": name} for n, name in enumerate(about.authors, 1)),
        SNAKEMAKE,
        _program("storelab", about.storelab) | {"@id": "#storelab"},
        *programs,
        *map(_parameter, passed),
        *actions,
        *(_folder(name, told, files) for name, told in folders.items()),
        *(_file(name, size) for name, size in sorted(files.items()) if name != WORKFLOW),
        _workflow(about, files[WORKFLOW], asked, [raw, *results], authors),
    ]
    examples = {_id(name)["@id"]: name for name in passed}
    for entity in graph:
        if entity["@id"] in examples:
            entity["exampleOfWork"] = _parameter_of(examples[entity["@id"]])
    return _json({"@context": CONTEXT, "@graph": graph})


FOLDERS = {
    "raw": (
        "Raw records",
        "Records of every measured point: operations, times, resources; docs/records.md of storelab.",
    ),
    "tables": ("Tables", "Made from the raw records alone; docs/tables.md of storelab."),
    "figures": ("Figures", "Drawn from the tables."),
}


def _papers(about: About) -> tuple[str, str]:
    return f"{about.folder}/paper.pdf", f"{about.folder}/report.html"


def _below(folder: str, files: Iterable[str]) -> list[str]:
    return sorted(name for name in files if name.startswith(folder))


def _id(name: str) -> Entity:
    """A reference to an entity: a file by its path (signs that no URI may have are written as %xx)."""
    mark = "#" if name.startswith("#") else ""
    return {"@id": name if name.startswith("https:") else mark + quote(name.removeprefix("#"), safe="/~")}


def _ids(names: Iterable[str]) -> list[Entity] | Entity:
    """References; a single one as it is, which is how RO-Crate 1.1 advises to write it."""
    found = [_id(name) for name in names]
    return found[0] if len(found) == 1 else found


def _descriptor() -> Entity:
    told = {"@id": METADATA, "@type": "CreativeWork", "about": {"@id": "./"}}
    return told | {"conformsTo": [{"@id": SPECIFICATION}, {"@id": WORKFLOW_CRATE}]}


def _root(about: About, parts: Iterable[str], authors: Any, programs: list[Entity]) -> Entity:
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": about.title,
        "description": about.description,
        "datePublished": about.date,
        "license": _id(_uri_of(about.license)),
        "author": authors,
        "keywords": ", ".join(KEYWORDS),
        "conformsTo": _ids(PROFILES),
        "mainEntity": _id(WORKFLOW),
        "mentions": [_id("#measured"), _id("#rebuilt"), *({"@id": program["@id"]} for program in programs)],
        "hasPart": _ids(sorted(parts)),
    }


def _uri_of(license: str) -> str:
    return f"https://spdx.org/licenses/{license}"


def _license(license: str) -> Entity:
    return {"@id": _uri_of(license), "@type": "CreativeWork", "name": license, "identifier": license}


def _program(name: str, version: str) -> Entity:
    told = _id(f"#{name}-{version}".rstrip("-")) | {"@type": "SoftwareApplication", "name": name}
    return told | ({"softwareVersion": version} if version else {})


def _parameter(name: str) -> Entity:
    """What the workflow takes or makes; its example is the file or folder of this pack."""
    kind = "Dataset" if name.endswith("/") else "File"
    told = {"@type": "FormalParameter", "name": PurePosixPath(name).name, "additionalType": kind}
    return _parameter_of(name) | told | {"workExample": _id(name)}


def _parameter_of(name: str) -> Entity:
    return _id(f"#parameter-{name.rstrip('/')}")


def _action(reference: str, name: str, takes: list[str], makes: list[str], authors: Any) -> Entity:
    return {
        "@id": reference,
        "@type": "CreateAction",
        "name": name,
        "description": f"{name}, by the rules of storelab's workflow.",
        "instrument": _id(WORKFLOW),
        "agent": authors,
        "object": _ids(takes),
        "result": _ids(makes),
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }


def _folder(name: str, told: tuple[str, str], files: Mapping[str, int]) -> Entity:
    title, description = told
    parts = _ids(_below(name, files))
    return _id(name) | {"@type": "Dataset", "name": title, "description": description, "hasPart": parts}


def _file(name: str, size: int) -> Entity:
    kind = KINDS.get(PurePosixPath(name).suffix, "text/plain")
    about = {"about": {"@id": "./"}} if name == README else {}
    return _id(name) | {"@type": "File", "name": name, "contentSize": str(size), "encodingFormat": kind} | about


def _workflow(about: About, size: int, takes: list[str], makes: list[str], authors: Any) -> Entity:
    return _file(WORKFLOW, size) | {
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
        "name": "storelab: config, plan, measure, records; tables, figures, paper",
        "version": about.storelab,
        "conformsTo": _id(BIOSCHEMAS),
        "programmingLanguage": {"@id": SNAKEMAKE["@id"]},
        "softwareRequirements": [_id("#storelab"), _id("envs/requirements.lock")],
        "license": _id(_uri_of(CODE_LICENSE)),
        "creator": authors,
        "input": [_parameter_of(name) for name in takes],
        "output": [_parameter_of(name) for name in makes],
    }


def citation(about: About) -> bytes:
    """`CITATION.cff`, Citation File Format 1.2.0."""
    told = {
        "cff-version": "1.2.0",
        "message": "If you use these data, please cite them, and storelab.",
        "type": "dataset",
        "title": about.title,
        "abstract": about.description,
        "authors": [{"name": name} for name in about.authors],
        "date-released": about.date,
        "license": about.license,
        "keywords": list(KEYWORDS),
        "references": [
            {
                "type": "software",
                "title": "storelab: a storage laboratory for High Energy Physics",
                "authors": [{"name": "The storelab developers"}],
                "version": about.storelab,
            }
        ],
    }
    return yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=120).encode()


def zenodo(about: About) -> bytes:
    """`.zenodo.json`: what Zenodo shows of a deposit of the pack."""
    told = {
        "upload_type": "dataset",
        "title": about.title,
        "description": about.description,
        "creators": [{"name": name} for name in about.authors],
        "publication_date": about.date,
        "access_right": "open",
        "license": about.license.lower(),
        "keywords": list(KEYWORDS),
        "notes": f"Made by storelab {about.storelab}; `storelab unpack` checks the pack and rebuilds it.",
    }
    return _json(told)


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()
