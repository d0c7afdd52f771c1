"""The line of thought of a paper of several campaigns: that of the paper of 2015, and what came since. Pure data."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Part:
    """What stands below one heading: figures by name (or by a stem that ends in `_`), and files of `tex/`."""

    title: str
    figures: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """`name`: its prose is `paper/joined/<name>.tex`; findings on this subject are discussed here. flushed: all of its
    figures stand before the next section begins."""

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
        "What came since",
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
LONG = ("table_claims", "table_verdicts")  # of each campaign, in the appendix
# In the paper of each campaign, or made anew from several: not taken over.
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

# Captions of the tables that have none of their own: in a campaign's paper its prose has them.
CAPTIONS = {
    "table_best": "The highest median of each operation, by object size and store, and where it was reached: median "
    "[low, high] of n runs; CPU of the clients / of the server in percent of the host's cores. Marks: c, bound by the "
    "client, l, by its link.",
    "table_cold": "Accesses as asked for and as proven by the disks; medians [low, high] over the runs.",
    "table_events": "Events processed with the most jobs measured, by setting of the client.",
    "table_one": "The systems of 2015 as printed, and those of this campaign as they were deployed and as the probe "
    "found them. A dash: not known.",
    "table_replay": "Replay of the ranges of selections, at the least number of clients measured; nothing is decoded.",
    "table_space": "Raw bytes that a store uses for each byte stored: after the uploads, after their deletion, and "
    "after the store was told to give space back. Median [low, high].",
    "table_sparse": "One read by fraction of the entries, at the least number of clients measured.",
    "table_summary": "The best medians that were measured, with their intervals, and what limited each system.",
    "table_systems": "Systems and deployments at the least number of clients, front-ends, buckets and accounts that "
    "was measured: median [low, high] over the runs, by engine.",
    "table_two": "One job that opens the file and reads random entries of all branches; the published rows stand "
    "below ours.",
    "table_volume": "One read of all entries by part of the volume, at the least number of clients measured.",
}


def chosen(wanted: Collection[str], names: Collection[str]) -> list[str]:
    """Of these names those that are wanted, or begin with a wanted stem, in the order of the wish."""
    found = [n for w in wanted for n in names if n == w or (w.endswith("_") and n.startswith(w))]
    return list(dict.fromkeys(found))


def sections(figures: Collection[str], tables: Collection[str]) -> Iterator[Section]:
    """All sections; what none of them asks for stands in a last part of `since`."""
    parts = [part for section in SECTIONS for part in section.parts]
    told = {n for part in parts for n in (*chosen(part.figures, figures), *chosen(part.tables, tables))}
    rest = Part(
        REST,
        tuple(f for f in figures if f not in told),
        tuple(t for t in tables if t not in told and t not in (*LONG, *ELSEWHERE)),
    )
    for section in SECTIONS:
        more = (rest,) if section.name == "since" and (rest.figures or rest.tables) else ()
        yield replace(section, parts=(*section.parts, *more))
