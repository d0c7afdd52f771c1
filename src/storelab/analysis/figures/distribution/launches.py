"""Figure of the time to first run against the clients that start at once, by cache. May import: what `figures` may."""

from storelab.analysis.figures.specification import Curve, Measure, Specification

FIGURES = {
    "launches": Specification(
        table="launches",
        where={"workload": "launch"},
        measures=(
            Measure((Curve("first", "s"),), "Time to first run [s]"),
            Measure((Curve("files", "per_s"),), "Files/s"),
        ),
        hue=("http_cache",),
        panels=("store",),
        columns=True,
        title="Starts of an application",
        caption="Starts of an application from a repository of software, against the number of clients that start at "
        "once, by the cache in front of the store. Left: time to first run of the median client, which begins with "
        "empty caches; right: files that all starts read per second. Medians; {bars}. {shared}",
    ),
}
