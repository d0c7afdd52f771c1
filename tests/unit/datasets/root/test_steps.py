"""Steps through a file: where they begin, what is decoded, which baskets are kept; files of the jobs in plan, stage and check."""

from types import SimpleNamespace

import numpy as np
import pytest
import uproot
from paths import SHARED

from storelab.core import config, plan
from storelab.core.errors import UserError
from storelab.datasets.root import decode, generated, header, pages, steps
from storelab.datasets.root.by_uproot import decoder
from storelab.workloads import WORKLOADS
from storelab.workloads.events.client import step_of
from storelab.workloads.staging import needs, stage

REAL = SHARED / "data" / "root"
TINY = generated.Scale(entries=103, branches=30, clusters=3, bytes_per_entry=400.0)


def test_a_scan_goes_through_the_file_and_begins_anew():
    assert [step_of("scan", 103, 50, 1, n) for n in range(5)] == [(0, 50), (50, 100), (100, 103), (0, 50), (50, 100)]
    assert [step_of("scan", 100, 50, 1, n) for n in range(3)] == [(0, 50), (50, 100), (0, 50)]
    assert step_of("scan", 7, 7, 1, 12) == (0, 7)


def test_random_navigation_jumps_evenly_the_same_for_the_same_job():
    found = [step_of("random", 103, 5, 42, n) for n in range(4000)]
    assert (
        found
        == [step_of("random", 103, 5, 42, n) for n in range(4000)]
        != [step_of("random", 103, 5, 43, n) for n in range(4000)]
    )
    firsts = np.array([a for a, _ in found])
    assert {b - a for a, b in found} == {5} and firsts.min() == 0 and firsts.max() == 98
    assert (np.diff(firsts) < 0).mean() == pytest.approx(0.5, abs=0.05), "in no order"
    counts = np.bincount(firsts)
    assert abs(counts - 4000 / 99).max() < 6 * np.sqrt(4000 / 99)
    assert step_of("random", 9, 9, 1, 0) == (0, 9)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """(header, bytes, uproot's arrays) of a tiny file; one branch is left to uproot."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.root"
    patch = pytest.MonkeyPatch()
    patch.setitem(generated.SCALES, "tiny", TINY)
    generated.generate(path, "tiny", 3)
    patch.undo()
    with uproot.open(path) as file:
        tree = file[generated.TREE]
        known = header.Header.of(tree, {})
        yield known, np.fromfile(path, np.uint8), {name: branch.array() for name, branch in tree.items()}


def bring(known, data, reader, first, stop):
    """One step; (rows, new rows, entries decoded)."""
    rows, new = reader.rows(first, stop)
    layout = known.layout
    reader.unpack(new, [data[o : o + s] for o, s in zip(layout.offset[new], layout.size[new], strict=True)])
    return rows, new, reader.arrays(rows, first, stop)


def test_each_basket_of_a_scan_is_fetched_once(tiny):
    known, data, _ = tiny
    names = known.layout.names[:9]
    reader = steps.StepReader(known, names, None)
    fetched = []
    for number in range(11):  # a pass of steps of 10
        first, stop = step_of("scan", 103, 10, 1, number)
        rows, new, decoded = bring(known, data, reader, first, stop)
        assert decoded == (stop - first) * len(names) and len(reader.contents) == len(names)
        assert (np.diff(known.layout.offset[rows]) > 0).all()
        fetched += new.tolist()
    assert len(fetched) == len(set(fetched)) == 3 * len(names)
    _, new, _ = bring(known, data, reader, 100, 103)
    assert len(new) == 0
    _, new, _ = bring(known, data, reader, 0, 1)
    assert len(new) == len(names), "only the basket last used is kept"
    reader.forget()
    assert len(reader.rows(0, 1)[1]) == len(names) and not reader.contents


def test_what_is_decoded_is_what_uproot_reads(tiny, monkeypatch):
    known, data, arrays = tiny
    seen, take = [], decode.take

    def watched(form, held, wanted):
        seen.append(take(form, held, wanted))
        return seen[-1]

    monkeypatch.setattr(decode, "take", watched)
    names = known.layout.names
    reader = steps.StepReader(known, names, None)
    for first, stop in ((0, 3), (30, 75), (75, 103), (2, 101)):
        seen.clear()
        bring(known, data, reader, first, stop)
        assert len(seen) == len(names)
        for name, found in zip(names, seen, strict=True):
            expected = arrays[name][first:stop]
            values = found if isinstance(found, np.ndarray) else found[1]
            flat = np.concatenate([np.atleast_1d(np.asarray(entry)) for entry in expected])
            assert np.array_equal(values, flat), name


def test_branches_without_a_form_are_left_to_uproot(tiny):
    known, data, _ = tiny
    asked = []

    class Foreign:
        def unpack(self, name, numbers, parts):
            return [(name, n, len(p)) for n, p in zip(numbers, parts, strict=True)]

        def __call__(self, name, numbers, parts, held, wanted):
            asked.append((name, numbers, parts, held, [w.tolist() for w in wanted]))
            return np.concatenate(wanted)

    name = known.layout.names[0]
    forms = [None, *known.forms[1:]]
    without = header.Header(known.tree, known.entries, known.layout, forms, {})
    reader = steps.StepReader(without, [name], Foreign())
    _, _, decoded = bring(known, data, reader, 34, 36)
    size = known.layout.size[:2].tolist()
    parts = [(name, n, length) for n, length in enumerate(size)]
    assert decoded == 2 and asked == [(name, [0, 1], parts, [35, 35], [[34], [0]])]


def settings(**axes):
    sweeps = {"e": {"workload": "events", "duration": "2 s", "axes": axes}}
    return config.Config.model_validate(
        {
            "campaign": "c",
            "name": "c",
            "stores": {"sw": {"kind": "seaweedfs"}},
            "use_stores": ["sw"],
            "sweeps": sweeps,
            "repetitions": 1,
        }
    )


def test_all_numbers_of_jobs_share_the_copies_that_lie_in_one_bucket(tmp_path, monkeypatch):
    points = [p for p in plan.make(settings(clients=[1, 4], files=4, step=20), WORKLOADS) if p.workload == "events"]
    assert {p.dataset["name"] for p in points} == {"root-S-4files"}
    dataset = points[0].dataset
    assert dataset["buckets"] == 1 and dataset["files"] == 4 and stage.root_copies(dataset) == 4
    one = next(p.dataset for p in plan.make(settings(), WORKLOADS) if p.workload == "events")
    assert one == {"name": "root-S", "kind": "root", "scale": "S", "buckets": 1, "seed": dataset["seed"]}, (
        "the data set of the other reads"
    )
    assert stage.dataset_bytes(dataset) == 4 * stage.dataset_bytes(one)
    summary = needs.summarise(points, "sw")
    assert summary.staged_objects == 4 and summary.buckets == 1
    monkeypatch.setitem(generated.SCALES, "S", TINY)
    with_scratch = SimpleNamespace(scratch=str(tmp_path))
    manifest, files = stage._root(
        with_scratch, SimpleNamespace(name="sw"), dataset, [SimpleNamespace(name="b", prefix="")], tmp_path / "m"
    )
    assert (
        manifest["objects"]["key"] == [f"data/root-S-4files/events-{i:04d}.root" for i in range(4)] and len(files) == 1
    )
    assert manifest["objects"]["bucket"] == [0] * 4 and manifest["objects"]["body"] == [0] * 4


def test_a_step_of_nothing_is_refused():
    with pytest.raises(UserError, match=r"axes.step: 0 is too small"):
        plan.make(settings(step=0), WORKLOADS)


def go_through(reader, data, entries, step):
    """One pass: rows fetched in all, events decoded over all branches."""
    fetched, decoded = [], 0
    for number in range(-(-entries // step)):
        first, stop = step_of("scan", entries, step, 1, number)
        rows, new = reader.rows(first, stop)
        reader.unpack(
            new, [data[o : o + s] for o, s in zip(reader.layout.offset[new], reader.layout.size[new], strict=True)]
        )
        decoded += reader.arrays(rows, first, stop)
        fetched += new.tolist()
    return fetched, decoded


def test_pages_of_an_rntuple_are_fetched_once_a_pass(tmp_path):
    path = tmp_path / "tuple.root"
    with uproot.recreate(path) as file:
        made = file.mkrntuple("events", {"x": np.arange(40.0), "n": np.arange(40, dtype="i4")})
        for held in (40, 20):
            made.extend({"x": np.arange(float(held)), "n": np.arange(held, dtype="i4")})
    with uproot.open(path) as file:
        known = pages.Pages.of(file["events"])
        reader = steps.PageSteps(known, ["x", "n"])
        fetched, decoded = go_through(reader, np.fromfile(path, np.uint8), 100, 7)
        assert decoded == 200 and len(fetched) == len(set(fetched)) == len(known.layout)
        assert len(reader.kept) == len(known.layout) // 3, "those of the last cluster"
        reader.forget()
        assert len(reader.rows(0, 1)[1]) == len(known.layout) // 3


@pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there (../shared/data/root)")
def test_baskets_in_the_header_are_never_missing():
    path = REAL / "nanoAOD_2015_CMS_Open_Data_ttbar.root"
    with uproot.open(path) as file:
        tree = file["Events"]
        known = header.Header.of(tree, {})
        inside = known.layout.offset < 0
        names = [n for i, n in enumerate(known.layout.names) if (known.layout.branch == i).any()]
        missing = [n for n in names if known.forms[known.layout.names.index(n)] is None]
        reader = steps.StepReader(known, names, decoder({n: tree[n] for n in missing}))
        fetched, decoded = go_through(reader, np.fromfile(path, np.uint8), known.entries, 70)
    assert (
        inside.any()
        and not inside[fetched].any()
        and len(set(fetched)) == (~inside).sum()
        and decoded == known.entries * len(names)
    )
