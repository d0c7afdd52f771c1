"""Outline of a paper of several campaigns, and functions that include the tables and figures of each campaign.

The first sections are in the order of the paper of 2015, followed by later work. A file of `tex/` is copied unchanged,
except that the name of the campaign is added to labels, and its name and a code to captions. May import: the same
packages as `papers`.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from storelab.analysis.figures import panels
from storelab.analysis.figures.specification import Specification
from storelab.analysis.latex.parts import CAPTION, escape, upright
from storelab.analysis.papers.members import Member
from storelab.analysis.parts import derived


@dataclass(frozen=True)
class Part:
    """The content below one heading: names of figures (or stems that end with `_`), and names of files in `tex/`."""

    title: str
    figures: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A section of the paper.

    name: the text of the section is `paper/joined/<name>.tex`, and it discusses the findings on this subject. flushed:
    all its figures are placed before the next section begins.
    """

    name: str
    title: str
    parts: tuple[Part, ...] = field(default=())
    flushed: bool = True


SECTIONS = (
    Section(
        "systems",
        "The systems",
        (
            Part("What they are", (), ("table_one",)),
            Part("What they do at best", ("systems",), ("table_summary", "table_systems")),
            Part("Space", ("space",), ("table_space",)),
        ),
        flushed=False,
    ),
    Section(
        "raw",
        "Raw data performance",
        (
            Part("Throughput", ("throughput_download", "throughput_upload"), ("table_best",)),
            Part("Metadata", ("metadata_",)),
            Part(
                "Front-ends, buckets and rows of axes",
                ("front_ends", "buckets", "along_"),
                ("table_knees", "table_traffic"),
            ),
            Part("One client", ("threads", "client_resources"), ("table_one_client",)),
            Part("Latency", ("latency_", "distributions"), ("table_latency", "table_distributions")),
        ),
    ),
    Section(
        "patterns",
        "Access patterns with ROOT",
        (
            Part("By volume", ("volume", "replay", "gaps", "front"), ("table_volume", "table_replay")),
            Part("By entries", ("entries", "phases"), ("table_sparse", "table_two")),
            Part("Events processed", ("events_",), ("table_events", "table_storage_lab")),
            Part("From disks, and from memory", (), ("table_cold",)),
        ),
    ),
    Section(
        "since",
        "Later developments",
        (
            Part("Several things at once", ("role_phases", "victim", "timeline_"), ("table_roles", "table_recovery")),
            Part("What is kept", (), ("table_durability", "table_consistency")),
            Part("Over hours", ("soak",), ("table_soak",)),
            Part("Distribution of software", ("releases",), ("table_releases",)),
            Part("Failed operations", ("errors_over_time",), ("table_errors",)),
        ),
    ),
    Section("earlier", "Then and now", (Part("", ("earlier",), ("table_earlier",)),), flushed=False),
)
LONG = ("table_claims", "table_verdicts")  # tables of each campaign that are in the appendix
# Tables that are not included, because they are only in the paper of each campaign, or are made from all campaigns.
ELSEWHERE = (
    "table_calibration",
    "table_capabilities",
    "table_claims_short",
    "table_environment",
    "table_evidence",
    "table_failed",
    "table_invalid",
    "table_throughput",
    "table_tried",
)
REST = "Further figures and tables"

# Captions of tables whose file has none. In the paper of a campaign, their captions are in the template.
CAPTIONS = {
    "table_best": "The highest median of each operation, by object size and store, and its setting: median "
    "[low, high] of n runs; CPU of the clients / of the server in percent of the host's cores. Marks: c, bound by the "
    "client, l, by its link.",
    "table_cold": "Accesses as requested and as proven by the disks; medians [low, high] over the runs.",
    "table_events": "Events processed with the most jobs measured, by setting of the client.",
    "table_one": "The systems of 2015 as printed, and those of this campaign as they were deployed and as the probe "
    "found them. A dash: not known.",
    "table_replay": "Replay of the ranges of selections, at the fewest clients measured; nothing is decoded.",
    "table_space": "Raw bytes that a store uses for each byte stored: after the uploads, after their deletion, and "
    "after the store was asked to free space. Median [low, high].",
    "table_sparse": "One read by fraction of the entries, at the smallest number of clients measured.",
    "table_summary": "The best medians that were measured, with their intervals, and the limits of each system.",
    "table_systems": "Systems and deployments at the smallest number of clients, front-ends, buckets and accounts that "
    "was measured: median [low, high] over the runs, by engine.",
    "table_two": "One job that opens the file and reads random entries of all branches; the published rows are "
    "below ours.",
    "table_volume": "One read of all entries by part of the volume, at the smallest number of clients measured.",
}


def chosen(wanted: Collection[str], names: Collection[str]) -> list[str]:
    """Return the names that are in `wanted`, or begin with a stem in it, in the order of `wanted`."""
    found = [n for w in wanted for n in names if n == w or (w.endswith("_") and n.startswith(w))]
    return list(dict.fromkeys(found))


def sections(figures: Collection[str], tables: Collection[str]) -> Iterator[Section]:
    """Yield all sections of the paper.

    Figures and tables that do not belong to a section are the last part of the section `since`.
    """
    parts = [part for section in SECTIONS for part in section.parts]
    placed = {n for part in parts for n in (*chosen(part.figures, figures), *chosen(part.tables, tables))}
    rest = Part(
        REST,
        tuple(f for f in figures if f not in placed),
        tuple(t for t in tables if t not in placed and t not in (*LONG, *ELSEWHERE)),
    )
    for section in SECTIONS:
        more = (rest,) if section.name == "since" and (rest.figures or rest.tables) else ()
        yield replace(section, parts=(*section.parts, *more))


MIN_MEDIANS = 3  # minimum number of medians of a figure; text can state fewer numbers
UPRIGHT = 6  # from this number of campaigns on, their names are rotated
_LABELS = re.compile(r"\\(label|ref)\{tab:")
_AFTER = re.compile(
    r"(.*\\end\{(?:longtable\}\}|(?:fixed)?table\}))\n.*", re.DOTALL
)  # text after the table in the paper of the campaign
_REFERENCE = re.compile(r"(?:Table|Figure)~\\ref\{([^}]*)\}")


@dataclass(frozen=True)
class Block:
    """The LaTeX of a table or figure. long: it spans pages and needs a single column."""

    text: str
    long: bool = False

    @property
    def named(self) -> str:
        r"""Return the reference for the text, such as `Table~\\ref{...}`, or an empty string without a label."""
        found = re.search(r"\\label\{([^}]*)\}|\{(fig:[^}]*)\}\n\Z", self.text)
        return f"{'Figure' if found[2] else 'Table'}~\\ref{{{found[1] or found[2]}}}" if found else ""


def table(member: Member, name: str, code: str) -> Block | None:
    """Return the table `tex/<name>.tex` of a campaign, or None if it does not exist or is empty."""
    path = member.folder / "tex" / f"{name}.tex"
    text = derived.read_tex(path, derived.rebuild_hint(member.folder, "latex")) if path.exists() else ""
    return adopted(text, member.name, name, code) if "\\begin{" in text else None


def adopted(text: str, campaign: str, name: str, code: str) -> Block:
    """Return a table of a campaign for this paper: its labels and caption have the campaign, its caption the code."""
    text = _LABELS.sub(lambda found: f"\\{found[1]}{{tab:{campaign}:", text)
    if "\\caption{" not in text or CAPTION in text:
        return _captioned(text, campaign, name, code)
    text = text.replace("\\caption{", f"\\caption{{\\Of{{{escape(campaign)}}}")
    text = text.replace("}\\label{tab:", f" \\Code{{{code}}}}}\\label{{tab:")
    text = _AFTER.sub(lambda found: found[1], text)
    return Block(_wide(text), "\\begin{longtable}" in text)


def _wide(text: str) -> str:
    return text.replace("\\begin{table}[htbp]", "\\begin{widetable}").replace("\\end{table}", "\\end{widetable}")


def _captioned(text: str, campaign: str, name: str, code: str) -> Block:
    """Return a table without a caption, or a bare tabular, as a float with a caption of CAPTIONS.

    In the paper of a campaign, the caption of this table is in the template. A long table spans pages.
    """
    caption_text = CAPTIONS.get(name, name.removeprefix("table_").replace("_", " ").capitalize() + ".")
    caption = f"\\Of{{{escape(campaign)}}}{escape(caption_text)} \\Code{{{code}}}"
    label = f"tab:{campaign}:{name.removeprefix('table_')}"
    if CAPTION in text:
        text = text.replace(f"\\caption{{{CAPTION}}}", f"\\caption{{{caption}}}\\label{{{label}}}")
        return Block(_wide(text), "\\begin{longtable}" in text)
    text = text.replace("\\begin{center}\n", "").replace("\\end{center}\n", "")
    return Block(wide_table(caption, label, text))


def wide_table(caption: str, label: str, text: str) -> str:
    """Return a float as wide as the page, with one or several tabulars."""
    head = f"\\begin{{widetable}}\\centering\\caption{{{caption}}}\\label{{{label}}}\n"
    return f"{head}{text}\\end{{widetable}}\n"


def headings(names: Sequence[str]) -> list[str]:
    """Return the names of campaigns as headings of columns. If there are many, they are rotated."""
    return upright(names) if len(names) >= UPRIGHT else [rf"\texttt{{{escape(name)}}}" for name in names]


def figure(member: Member, name: str, code: str, macro: str = "Figure") -> Block:
    r"""Return the LaTeX of a figure. macro: macro of the template, `Figure`, or `Lead` for the first page."""
    caption = f"\\Of{{{escape(member.name)}}}{escape(member.figures[name]['caption'])} \\Code{{{code}}}"
    return Block(f"\\{macro}{{{picture(member, name)}}}{{{caption}}}{{fig:{member.name}:{name}}}\n")


def picture(member: Member, name: str) -> str:
    """Return the file name of a figure's picture in the folder of the paper."""
    return f"{member.name}-{name}.pdf"


def carries(member: Member, name: str) -> bool:
    """Return True if a figure has enough values: at least three medians, at two or more positions of its axis."""
    figure = member.declared[name]
    if not isinstance(figure, Specification):
        return len(figure.captioned_rows(member.table(figure.table))) >= MIN_MEDIANS
    shown = member.layout(name)
    return shown is not None and enough(figure, shown.panels)


def enough(figure: Specification, shown: Sequence[panels.Panel]) -> bool:
    """Return True if the panels of a figure have enough values, by the rule of `carries`."""
    medians, places = 0, set()
    for panel in shown:
        for curve in (c for c in panel.measure.curves if c.column() in panel.rows):
            known = panel.rows[panel.rows[curve.column()].notna()]
            medians += len(known)
            places |= set(known[panel.measure.x or figure.x].dropna())
    words = any(not pd.api.types.is_numeric_dtype(p.rows[p.measure.x or figure.x]) for p in shown)
    return medians >= MIN_MEDIANS and (words or len(places) > 1)


def resolved(text: str) -> str:
    """Return the text with valid references only.

    References to figures and tables that this paper does not show are replaced by a mention of the campaign's paper.
    """
    labels = set(re.findall(r"(?:\\label\{|\}\{)([a-z]+:[^}]*)\}", text))
    elsewhere = "a table of the campaign's own paper"
    return _REFERENCE.sub(lambda found: found[0] if found[1] in labels else elsewhere, text)
