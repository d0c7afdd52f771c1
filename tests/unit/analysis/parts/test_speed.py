"""The speed of a point: a rate, or a throughput from one megabyte on."""

import pandas as pd

from storelab.analysis.parts import groups


def test_throughput_is_the_speed_from_one_megabyte_on():
    rows = [  # workload, object size, range size, state, throughput; the rate is its tenth
        *[("get", 999_999, None, "ok", 10.0), ("get", 10**6, None, "ok", 20.0)],
        *[("get_range", 10**9, 4000, "ok", 30.0), ("get_range", 10, 10**6, "ok", 40.0)],
        *[("delete", 10**9, None, "ok", 50.0), ("put", 10**7, None, "invalid", 60.0), ("put", 10**7, None, "ok", 70.0)],
    ]
    columns = ["workload", "object_size_bytes", "range_size_bytes", "state", "overlap_throughput_mb_per_s"]
    t = pd.DataFrame(rows, columns=columns).assign(overlap_rate_per_s=[1.0, 2, 3, 4, 5, 6, None])
    found = groups.point_rows(t)
    assert list(zip(found["metric"], found["value"], strict=True)) == [
        *[("rate", 1), ("throughput", 20), ("rate", 3), ("throughput", 40), ("rate", 5), ("throughput", 70)]
    ]
    more = groups.with_latencies(t.assign(latency_p99_ms=[None, 5.0, None, None, None, 9.0, 7.0]))
    assert list(zip(more["metric"], more["value"], strict=True))[6:] == [("latency_p99", 5.0), ("latency_p99", 7.0)]


def test_names_and_kinds_of_metrics():
    named = {"throughput": "throughput [MB/s]", "rate": "rate [1/s]", "speed": "speed"}
    named |= {"latency_p50": "latency p50 [ms]", "latency_p99": "latency p99 [ms]"}
    assert {m: groups.metric_text(m) for m in named} == named
    assert [groups.kind(m) for m in ("throughput", "rate", "latency_p50")] == ["speed", "speed", "latency_p50"]
