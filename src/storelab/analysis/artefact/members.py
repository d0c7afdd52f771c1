"""Members of a pack, which is a project folder with one campaign, and its machine-readable description.

A pack contains no secrets and no paths of this machine. It is described by `ro-crate-metadata.json` (RO-Crate 1.1 with
the profiles Workflow RO-Crate 1.0, Process Run Crate 0.5 and Workflow Run Crate 0.5), `CITATION.cff` and
`.zenodo.json`. These files contain only times from the records, so that the same campaign gives the same text.
"""

import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import yaml

from storelab import __version__
from storelab.analysis.artefact.archive import METADATA, Member, size_of
from storelab.analysis.figures import KINDS, catalogue
from storelab.analysis.records import links
from storelab.analysis.records.campaign import Campaign
from storelab.core import config, integrity, records
from storelab.core.errors import UserError
from storelab.core.redaction import holds_secret

# --- machine-readable description of the pack ---

CITATION, ZENODO = "CITATION.cff", ".zenodo.json"
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
MEDIA_TYPES = {
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
CODE_LICENSE = "BSD-3-Clause"  # license of the workflow, which is part of storelab
KEYWORDS = ("storage", "benchmark", "High Energy Physics")
Entity = dict[str, Any]


@dataclass(frozen=True)
class About:
    """The description of a campaign.

    folder: folder of the results in the pack, such as `results/demo`; begin, end: times of the measurements (ISO 8601,
    UTC); points: number of points; failed: number of points without a result; software: (name, version) of the
    measuring and the measured programs; storelab: version that made the pack.
    """

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
    """Return `ro-crate-metadata.json` of a pack. files: name in the pack -> size in bytes."""
    folders = {f"{about.folder}/{kind}/": parts_of_pack for kind, parts_of_pack in FOLDERS.items()}
    folders = {name: parts_of_pack for name, parts_of_pack in folders.items() if _below(name, files)}
    outside = [name for name in files if not any(name.startswith(folder) for folder in folders)]
    papers = (f"{about.folder}/{name}" for name in PAPERS)
    results = [*(f for f in folders if not f.endswith("/raw/")), *(n for n in papers if n in files)]
    raw, requested = f"{about.folder}/raw/", ["config.yaml", *_below("campaigns/", files)]
    passed = sorted({*requested, raw, *results})
    programs = [_program(name, version) for name, version in about.software]
    authors = _ids(f"#author-{number}" for number in range(1, len(about.authors) + 1))
    actions = [
        _action("#measured", "Measuring the campaign", requested, [raw], authors)
        | {"startTime": about.begin, "endTime": about.end},
        _action(
            "#rebuilt", "Making tables, figures and paper from the records", ["config.yaml", raw], results, authors
        ),
    ]
    graph = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": [{"@id": SPECIFICATION}, {"@id": WORKFLOW_CRATE}],
        },
        _root(about, [*folders, *outside], authors, programs),
        *({"@id": uri, "@type": "CreativeWork", "name": n, "version": v} for uri, (n, v) in PROFILES.items()),
        {"@id": BIOSCHEMAS, "@type": "CreativeWork", "name": "ComputationalWorkflow", "version": "1.0-RELEASE"},
        *(
            _id(_uri_of(name)) | {"@type": "CreativeWork", "name": name, "identifier": name}
            for name in sorted({about.license, CODE_LICENSE})
        ),
        *({"@id": f"#author-{n}", "@type": "Person", "name": name} for n, name in enumerate(about.authors, 1)),
        SNAKEMAKE,
        _program("storelab", about.storelab) | {"@id": "#storelab"},
        *programs,
        *map(_parameter, passed),
        *actions,
        *(_folder(name, described, files) for name, described in folders.items()),
        *(_file(name, size) for name, size in sorted(files.items()) if name != WORKFLOW),
        _workflow(about, files[WORKFLOW], requested, [raw, *results], authors),
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
    "tables": ("Tables", "Made only from the raw records; docs/tables.md of storelab."),
    "figures": ("Figures", "Drawn from the tables."),
}


def _below(folder: str, files: Iterable[str]) -> list[str]:
    return sorted(name for name in files if name.startswith(folder))


def _id(name: str) -> Entity:
    """Return a reference to an entity, such as a file by its path. Characters that a URI cannot have are escaped."""
    mark = "#" if name.startswith("#") else ""
    return {"@id": name if name.startswith("https:") else mark + quote(name.removeprefix("#"), safe="/~")}


def _ids(names: Iterable[str]) -> list[Entity] | Entity:
    """Return references to entities. As RO-Crate 1.1 recommends, a single reference is not in a list."""
    found = [_id(name) for name in names]
    return found[0] if len(found) == 1 else found


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


def _program(name: str, version: str) -> Entity:
    entry = _id(f"#{name}-{version}".rstrip("-")) | {"@type": "SoftwareApplication", "name": name}
    return entry | ({"softwareVersion": version} if version else {})


def _parameter(name: str) -> Entity:
    """Return the entity for an input or output of the workflow. Its example is a file or folder of this pack."""
    kind = "Dataset" if name.endswith("/") else "File"
    parameter = {"@type": "FormalParameter", "name": PurePosixPath(name).name, "additionalType": kind}
    return _parameter_of(name) | parameter | {"workExample": _id(name)}


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


def _folder(name: str, described: tuple[str, str], files: Mapping[str, int]) -> Entity:
    title, description = described
    parts = _ids(_below(name, files))
    return _id(name) | {"@type": "Dataset", "name": title, "description": description, "hasPart": parts}


def _file(name: str, size: int) -> Entity:
    kind = MEDIA_TYPES.get(PurePosixPath(name).suffix, "text/plain")
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
    """Return `CITATION.cff` in the Citation File Format 1.2.0."""
    data = {
        "cff-version": "1.2.0",
        "message": "If you use these data, please cite them and storelab.",
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
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120).encode()


def zenodo(about: About) -> bytes:
    """Return `.zenodo.json`, the metadata that Zenodo shows for a deposit of the pack."""
    data = {
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
    return _json(data)


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()


# --- content of the pack ---

PAPERS = {"paper.pdf": "paper", "report.html": "report"}  # file -> target of `make`
# LOCAL_FOLDERS and LOCAL_KEYS are configuration keys that describe the machine or its user, or can contain a secret.
RECORDS = ("json", "csv", "tex")  # types of files in which normal text never looks like a key or token
TEXTS = (*RECORDS, "html", "svg", "yaml", "md", "txt")
LOCAL_FOLDERS = ("state", "scratch", "results")
LOCAL_KEYS = config.SECRET | {"profile", "profiles", "ca_file", "setup", "python", "options", "hosts"}


def everything(
    campaign: Campaign, layers: config.Layers, project: Mapping[str, Path], license: str
) -> tuple[dict[str, Member], list[str]]:
    """Return all members of a pack (name -> file or content), and those of PAPERS that are excluded as outdated.

    layers: configuration of the campaign; project: files of the project folder (Snakefile, rules …), of which
    config.yaml and campaign files are replaced by those of the campaign; license: license of the data.
    """
    project_files = {name: path for name, path in project.items() if not name.startswith("campaigns/")}
    results, left = results_of(campaign)
    folder = f"results/{campaign.folder.name}"
    out: dict[str, Member] = {**project_files, **configuration(campaign, layers)}
    out |= {f"{folder}/{name}": path for name, path in results.items()}
    about = about_of(campaign, license)
    out |= {CITATION: citation(about), ZENODO: zenodo(about), README: readme(about)}
    # The metadata file does not list itself, because it would need its own size.
    _without_secrets(out)
    out[METADATA] = metadata(about, {name: size_of(member) for name, member in out.items()})
    return out, left


def _without_secrets(members: Mapping[str, Member]) -> None:
    """Raise UserError if a text of the pack contains a key or token."""
    for name, member in members.items():
        kind = name.rpartition(".")[2]
        if kind not in TEXTS:
            continue
        text = (member if isinstance(member, bytes) else member.read_bytes()).decode(errors="replace")
        if holds_secret(text, unknown=kind in RECORDS):
            problem = "contains a text that looks like a key or token: nothing was packed"
            hint = "measure again, or make the file again, without this text"
            raise UserError(str(member) if isinstance(member, Path) else name, problem, hint)


def results_of(campaign: Campaign) -> tuple[dict[str, Path], list[str]]:
    """Return the records, tables, figures and papers of a campaign, and the papers that are excluded as outdated.

    The files are returned as name below the campaign's folder -> file. Papers that are older than the tables are
    excluded. Other files of users in the folder are not packed.
    """
    from storelab.analysis.tables import build as tables

    folder, raw = campaign.folder, campaign.raw
    sealed = [raw / integrity.SEAL] if records.sealed(raw) else []
    found = [*integrity.raw_files(raw), raw / integrity.SUMS, *sealed]
    made = [folder / "tables" / name for name in (*(f"{name}.csv" for name in tables.NAMES), integrity.SUMS)]
    drawn = [folder / "figures" / f"{n}.{kind}" for n in catalogue.names(campaign.plan) for kind in ("json", *KINDS)]
    found += [*made, folder / "figures" / "index.json", *(p for p in drawn if p.exists())]
    since, left = max(p.stat().st_mtime_ns for p in made), []
    for name in PAPERS:
        path = folder / name
        if path.exists() and path.stat().st_mtime_ns < since:
            left.append(name)
        elif path.exists():
            found.append(path)
    declared = {links.FILE: path} if (path := links.path(folder)).exists() else {}
    return {p.relative_to(folder).as_posix(): p for p in found} | declared, left


def configuration(campaign: Campaign, layers: config.Layers) -> dict[str, bytes]:
    """Return the configuration of a pack: config.yaml (all files and options merged) and the campaign file.

    The campaign file is not changed, unless an option or a further file changed a setting. Raises UserError if one of
    them contains a text that looks like a key or token.
    """
    name, merged = campaign.folder.name, config.merged(layers)
    (_, _), (file, requested), *_ = layers
    effective = {k: v for k, v in merged.items() if k not in LOCAL_FOLDERS} | {"campaign": name, "measure": False}
    if stores := _named(merged.get("stores"), {*campaign.plan["stores"], *merged.get("stores_to_measure", ())}):
        effective["stores"] = {n: _without_local(store) for n, store in stores.items()}
    if "launcher" in effective:
        effective["launcher"] = _without_local(effective["launcher"])
    planned = {key: merged[key] for key in requested}
    written = Path(file).read_bytes() if planned == requested else _yaml("The campaign as it was planned.", planned)
    about = "The effective configuration of this campaign: config.yaml, campaign file and options, merged."
    out = {"config.yaml": _yaml(about, effective), f"campaigns/{name}.yaml": written}
    for place, text in out.items():
        if holds_secret(text.decode()):
            problem = "contains a text that looks like a key or token: nothing was packed"
            raise UserError(
                file if place.startswith("campaigns/") else layers[0][0], problem, "remove it from the file"
            )
    return out


def _named(stores: Any, used: Collection[str]) -> dict[str, Any]:
    return {n: store for n, store in stores.items() if n in used} if isinstance(stores, Mapping) else {}


def _without_local(settings: Any) -> Any:
    if not isinstance(settings, Mapping):
        return settings
    return {key: _without_local(value) for key, value in settings.items() if key not in LOCAL_KEYS}


def _yaml(about: str, data: Mapping[str, Any]) -> bytes:
    text = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120)
    return f"# {about}\n{text}".encode()


def about_of(campaign: Campaign, license: str) -> About:
    """Return the description of a campaign from its records, so that the same campaign gives the same text."""
    runs, failures = campaign.runs.values(), campaign.failures.values()
    begins = [run["start_ns"] for run in runs] or [failed["time_ns"] for failed in failures]
    ends = [run["deadline_ns"] for run in runs] or begins
    named = {(run["store"]["name"], str(run["store"].get("version") or "")) for run in runs}
    named |= {(run["engine"]["name"], str(run["engine"].get("version") or "")) for run in runs if run.get("engine")}
    named |= {("storelab", _version(run["environment"])) for run in runs}
    described = campaign.plan["campaign"]
    return About(
        name=campaign.folder.name,
        title=described.get("title") or campaign.folder.name,
        authors=tuple(described.get("authors") or ["The storelab developers"]),
        license=license,
        folder=f"results/{campaign.folder.name}",
        begin=_utc(min(begins)),
        end=_utc(max(ends)),
        points=len(campaign.points),
        failed=len(campaign.failures),
        software=tuple(sorted(named)),
        storelab=__version__,
    )


def _version(environment: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (environment.get("storelab"), environment.get("git_commit"))))


def _utc(ns: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(ns // 10**9))


def readme(about: About) -> bytes:
    """Return README.md of a pack."""
    return f"""# {about.title}

{about.description}

This folder is a project of storelab, and an RO-Crate (`{METADATA}`).
`sha256sum -c SHA256SUMS` checks all files.

* `{about.folder}/raw/`: the records; `{about.folder}/tables/`, `{about.folder}/figures/`: made from them.
* `config.yaml`, `campaigns/{about.name}.yaml`: what was measured.
* `envs/requirements.lock`: the environment, with versions and hashes.
* With storelab {about.storelab}, `storelab unpack` rebuilds tables and figures and compares them;
  `snakemake --profile profiles/local`, in this folder, makes the paper.

License of the data: {about.license}. License of the workflow (Snakefile, rules, envs, paper): {CODE_LICENSE}.
""".encode()
