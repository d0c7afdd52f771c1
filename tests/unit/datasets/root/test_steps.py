"""Steps through a tree: what is decoded, and which baskets and pages are kept."""

import numpy as np
import pytest
import uproot
from paths import SHARED

from storelab.datasets.root import baskets, decode, generated, header, pages, steps
from storelab.datasets.root.by_uproot import decoder

REAL = SHARED / "data" / "root"


def bring(data, reader, first, stop):
    """Go one step; return (rows, new rows, entries decoded)."""
    rows, new = reader.rows(first, stop)
    layout = reader.layout
    reader.unpack(new, [data[o : o + s] for o, s in zip(layout.offset[new], layout.size[new], strict=True)])
    return rows, new, reader.arrays(rows, first, stop)


def go_through(data, reader, entries, step):
    """Make one pass; return (all rows fetched, entries decoded over all branches)."""
    fetched, decoded = [], 0
    for first in range(0, entries, step):
        rows, new, count = bring(data, reader, first, min(first + step, entries))
        assert (np.diff(reader.layout.offset[rows]) >= 0).all()
        fetched, decoded = fetched + new.tolist(), decoded + count
    return fetched, decoded


def test_scan_fetches_each_basket_once(tiny):
    data, known = tiny
    names = known.layout.names[:9]
    reader = steps.StepReader(known, names, None)
    fetched, decoded = go_through(data, reader, 103, 10)
    assert decoded == 103 * len(names) and len(reader.contents) == len(names)
    assert len(fetched) == len(set(fetched)) == 3 * len(names)
    assert len(bring(data, reader, 100, 103)[1]) == 0
    assert len(bring(data, reader, 0, 1)[1]) == len(names), "only the basket last used is kept"
    assert len(reader.contents) == len(names)
    reader.forget()
    assert len(reader.rows(0, 1)[1]) == len(names) and not reader.contents


def test_steps_decode_what_uproot_reads(tiny, tiny_file, monkeypatch):
    data, known = tiny
    seen, take = [], decode.take

    def watched(form, held, wanted):
        seen.append(take(form, held, wanted))
        return seen[-1]

    monkeypatch.setattr(decode, "take", watched)
    names = known.layout.names
    reader = steps.StepReader(known, names, None)
    with uproot.open(tiny_file) as file:
        arrays = {name: branch.array() for name, branch in file[generated.TREE].items()}
    for first, stop in ((0, 3), (30, 75), (75, 103), (2, 101)):
        seen.clear()
        bring(data, reader, first, stop)
        assert len(seen) == len(names)
        for name, found in zip(names, seen, strict=True):
            flat = np.concatenate([np.atleast_1d(np.asarray(entry)) for entry in arrays[name][first:stop]])
            assert np.array_equal(found if isinstance(found, np.ndarray) else found[1], flat), name


def test_branches_without_form_are_left_to_uproot(tiny):
    data, known = tiny
    asked = []

    class Foreign:
        def unpack(self, name, numbers, parts):
            return [(name, n, len(p)) for n, p in zip(numbers, parts, strict=True)]

        def __call__(self, name, numbers, parts, held, wanted):
            asked.append((name, numbers, parts, held, [w.tolist() for w in wanted]))
            return np.concatenate(wanted)

    name = known.layout.names[0]
    without = header.Header(known.tree, known.entries, known.layout, [None, *known.forms[1:]], {})
    _, _, decoded = bring(data, steps.StepReader(without, [name], Foreign()), 34, 36)
    parts = [(name, n, length) for n, length in enumerate(known.layout.size[:2].tolist())]
    assert decoded == 2 and asked == [(name, [0, 1], parts, [35, 35], [[34], [0]])]


def test_pages_are_fetched_once_a_pass(tmp_path):
    path = tmp_path / "tuple.root"
    with uproot.recreate(path) as file:
        made = file.mkrntuple("events", {"x": np.arange(40.0), "n": np.arange(40, dtype="i4")})
        for held in (40, 20):
            made.extend({"x": np.arange(float(held)), "n": np.arange(held, dtype="i4")})
    with uproot.open(path) as file:
        known = pages.Pages.of(file["events"])
        reader = steps.PageSteps(known, ["x", "n"])
        fetched, decoded = go_through(np.fromfile(path, np.uint8), reader, 100, 7)
        assert decoded == 200 and len(fetched) == len(set(fetched)) == len(known.layout)
        assert len(reader.kept) == len(known.layout) // 3, "those of the last cluster"
        reader.forget()
        assert len(reader.rows(0, 1)[1]) == len(known.layout) // 3


@pytest.mark.skipif(not REAL.is_dir(), reason="data: the real files are missing (../shared/data/root)")
def test_embedded_baskets_are_never_missing():
    path = REAL / "nanoAOD_2015_CMS_Open_Data_ttbar.root"
    with uproot.open(path) as file:
        tree = file["Events"]
        known = header.Header.of(tree, {})
        inside = known.layout.offset < 0
        names = [n for i, n in enumerate(known.layout.names) if (known.layout.branch == i).any()]
        missing = [n for n in names if known.forms[known.layout.names.index(n)] is None]
        reader = steps.StepReader(known, names, decoder({n: tree[n] for n in missing}))
        fetched, decoded = go_through(np.fromfile(path, np.uint8), reader, known.entries, 70)
    assert inside.any() and not inside[fetched].any() and len(set(fetched)) == (~inside).sum()
    assert decoded == known.entries * len(names)


def test_basket_at_offset_zero_is_in_the_file():
    """Baskets below offset 0 are in the header."""
    columns = [np.array(c) for c in ([0, 0, 0], [0, 1, 2], [0, 5, 8], [5, 8, 9], [0, 70, -1], [70, 30, 9])]
    layout = baskets.Baskets(["x"], *columns)
    one = steps.StepReader(header.Header("t", 9, layout, [None], {}), ["x"], None)
    every, missing = one.rows(0, 9)
    assert sorted(every.tolist()) == [0, 1, 2] and sorted(missing.tolist()) == [0, 1]
