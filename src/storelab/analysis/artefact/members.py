"""What is in a pack: a project folder that holds one campaign. Nothing secret, nothing of this machine's paths."""

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from storelab import __version__
from storelab.analysis.artefact import crate
from storelab.analysis.artefact.archive import Member, size_of
from storelab.analysis.figures import KINDS, catalogue
from storelab.analysis.records import links
from storelab.analysis.records.campaign import Campaign
from storelab.core import config, evidence, records
from storelab.core.errors import UserError
from storelab.core.redaction import holds_secret

PAPERS = {"paper.pdf": "paper", "report.html": "report"}  # with what `make` makes them
# Keys of the configuration that tell of the machine and its user, or may hold a secret.
RECORDS = ("json", "csv", "tex")  # in which nothing looks like a key
TEXTS = (*RECORDS, "html", "svg", "yaml", "md", "txt")
OWN_PLACES = ("state", "scratch", "results")
OWN_KEYS = config.SECRET | {"profile", "profiles", "ca_file", "setup", "python", "options"}


def everything(
    campaign: Campaign, layers: config.Layers, project: Mapping[str, Path], license: str
) -> tuple[dict[str, Member], list[str]]:
    """Name -> file or content of all members, and which of PAPERS were left out. `project`: files of the project folder
    (Snakefile, rules …); of it the campaigns and config.yaml are the campaign's own."""
    own = {name: path for name, path in project.items() if not name.startswith("campaigns/")}
    results, left = results_of(campaign)
    folder = f"results/{campaign.folder.name}"
    out: dict[str, Member] = {**own, **configuration(campaign, layers)}
    out |= {f"{folder}/{name}": path for name, path in results.items()}
    about = about_of(campaign, license)
    out |= {crate.CITATION: crate.citation(about), crate.ZENODO: crate.zenodo(about), crate.README: readme(about)}
    # Not in its own list: it would have to know its size.
    _without_secrets(out)
    out[crate.METADATA] = crate.metadata(about, {name: size_of(member) for name, member in out.items()})
    return out, left


def _without_secrets(members: Mapping[str, Member]) -> None:
    """Raise UserError where a text that would be packed holds a key or a token: records are not altered any more."""
    for name, member in members.items():
        kind = name.rpartition(".")[2]
        if kind not in TEXTS:
            continue
        text = (member if isinstance(member, bytes) else member.read_bytes()).decode(errors="replace")
        if holds_secret(text, unknown=kind in RECORDS):
            problem = "holds a key, or what looks like a key or a token: nothing was packed"
            raise UserError(str(member) if isinstance(member, Path) else name, problem, "measure or make it again")


def results_of(campaign: Campaign) -> tuple[dict[str, Path], list[str]]:
    """Name below the campaign's folder -> file: records, tables, figures, and the papers where they are not older than
    the tables. What people left there is not packed."""
    from storelab.analysis.tables import build as tables

    folder, raw = campaign.folder, campaign.raw
    sealed = [raw / evidence.SEAL] if records.sealed(raw) else []
    found = [*evidence.raw_files(raw), raw / evidence.SUMS, *sealed]
    made = [folder / "tables" / name for name in (*(f"{name}.csv" for name in tables.NAMES), evidence.SUMS)]
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
    """config.yaml (the effective configuration: all files and options merged) and the campaign file.

    The campaign file is as it was written, unless an option or a further file had a say in it. Raises UserError where
    one of them holds what looks like a token.
    """
    name, merged = campaign.folder.name, config.merged(layers)
    (_, _), (file, asked), *_ = layers
    effective = {k: v for k, v in merged.items() if k not in OWN_PLACES} | {"campaign": name, "measure": False}
    if stores := _named(merged.get("stores"), {*campaign.plan["stores"], *merged.get("use_stores", ())}):
        effective["stores"] = {n: _without_own(store) for n, store in stores.items()}
    if "launcher" in effective:
        effective["launcher"] = _without_own(effective["launcher"])
    told = {key: merged[key] for key in asked}
    written = Path(file).read_bytes() if told == asked else _yaml("The campaign as it was planned.", told)
    about = "The effective configuration of this campaign: config.yaml, campaign file and options, merged."
    out = {"config.yaml": _yaml(about, effective), f"campaigns/{name}.yaml": written}
    for place, text in out.items():
        if holds_secret(text.decode()):
            problem = "holds what looks like a key or a token: it was not packed"
            raise UserError(
                file if place.startswith("campaigns/") else layers[0][0], problem, "take it out of the file"
            )
    return out


def _named(stores: Any, used: Collection[str]) -> dict[str, Any]:
    return {n: store for n, store in stores.items() if n in used} if isinstance(stores, Mapping) else {}


def _without_own(settings: Any) -> Any:
    if not isinstance(settings, Mapping):
        return settings
    return {key: _without_own(value) for key, value in settings.items() if key not in OWN_KEYS}


def _yaml(about: str, data: Mapping[str, Any]) -> bytes:
    text = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120)
    return f"# {about}\n{text}".encode()


def about_of(campaign: Campaign, license: str) -> crate.About:
    """As the records tell it: the same campaign, the same words."""
    runs, failures = campaign.runs.values(), campaign.failures.values()
    begins = [run["start_ns"] for run in runs] or [failed["time_ns"] for failed in failures]
    ends = [run["deadline_ns"] for run in runs] or begins
    named = {(run["store"]["name"], str(run["store"].get("version") or "")) for run in runs}
    named |= {(run["engine"]["name"], str(run["engine"].get("version") or "")) for run in runs if run.get("engine")}
    named |= {("storelab", _version(run["environment"])) for run in runs}
    told = campaign.plan["campaign"]
    return crate.About(
        name=campaign.folder.name,
        title=told.get("title") or campaign.folder.name,
        authors=tuple(told.get("authors") or ["The storelab developers"]),
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


def readme(about: crate.About) -> bytes:
    return f"""# {about.title}

{about.description}

This folder is a project of storelab, and an RO-Crate (`{crate.METADATA}`).
`sha256sum -c SHA256SUMS` checks all files.

* `{about.folder}/raw/`: the records; `{about.folder}/tables/`, `{about.folder}/figures/`: made from them.
* `config.yaml`, `campaigns/{about.name}.yaml`: what was measured.
* `envs/requirements.lock`: the environment, with versions and hashes.
* With storelab {about.storelab}, `storelab unpack` rebuilds tables and figures and compares them;
  `snakemake --profile profiles/local`, in this folder, makes the paper.

License of the data: {about.license}. License of the workflow (Snakefile, rules, envs, paper): {crate.CODE_LICENSE}.
""".encode()
