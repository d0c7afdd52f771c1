"""Make rows of throughput.csv and columns of metrics for tests of figures and tables."""

import pandas as pd

SCATTER = (0.97, 1.03, 0.98, 1.02, 0.99, 1.01)  # the logarithms add up to about 0


def runs(value: float, scatter: tuple[float, ...] = SCATTER, **columns) -> pd.DataFrame:
    """Return runs of a point whose rates are the value times each factor of the scatter."""
    same = {"store": "alpha", "workload": "get", "object_size_bytes": 10**7, "clients": 1, "workers": 1} | columns
    rows = [same | {"throughput_mb_per_s": value * s, "rate_per_s": value * s} for s in scatter]
    return pd.DataFrame(rows).assign(key=[f"{'/'.join(map(str, same.values()))}/{i}" for i in range(len(rows))])


def only_row(table: pd.DataFrame, **wanted) -> pd.Series:
    """Return the only row of a table with these values."""
    for column, value in wanted.items():
        table = table[table[column] == value]
    assert len(table) == 1, wanted
    return table.iloc[0]


def groups(**columns) -> pd.DataFrame:
    """Return rows of throughput.csv. The columns of axes are before n."""
    same = {
        "store": "alpha",
        "workload": "put",
        "engine": "s5cmd",
        "object_size_bytes": 4000,
        "clients": 1,
        "workers": 8,
        "buckets": 1,
    }
    more = {
        "front_ends": 1,
        "n": 6,
        "interval": "95 % interval",
        "shared_host": False,
        "duration_s": 5.0,
        "bound_by": None,
    }
    length = max(len(v) for v in columns.values() if isinstance(v, list))
    rows = pd.DataFrame({k: v if isinstance(v, list) else [v] * length for k, v in (same | more | columns).items()})
    for name, unit in (("rate", "per_s"), ("throughput", "mb_per_s")):
        value = pd.Series(columns.get("value", [100.0] * length))
        for part, factor in (("median", 1), ("low", 0.9), ("high", 1.1)):
            rows[f"{name}_{part}_{unit}"] = value * factor
    return rows.drop(columns="value", errors="ignore")


def spread(name: str, unit: str, median: float) -> dict[str, float]:
    """Return the three columns of a metric, with an interval of 10 % around the median."""
    return {f"{name}_{part}_{unit}": median * f for part, f in (("median", 1.0), ("low", 0.9), ("high", 1.1))}
