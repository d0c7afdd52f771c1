"""Compare the readers of storelab with uproot on a ROOT file."""

from types import SimpleNamespace

import awkward as ak
import numpy as np
import uproot
from memory_transport import Memory

from readplan import Link
from storelab.datasets import own_file
from storelab.datasets.root import baskets, decode
from storelab.datasets.root.baskets import branches_of
from storelab.datasets.root.by_uproot import Decoder
from storelab.datasets.root.pages import PageReader, Pages
from storelab.datasets.root.reader import BATCH, Header, SelectionReader, Spent
from storelab.engines.uproot import Reader, TupleReader

LINK = Link(1e-3, 1e-4, 1e-4, 1e8, 1e8, 8)


def by_the_decoder(path, tree, names, entries, link=LINK, batch=BATCH):
    """Return branch -> array of these entries, as read by the engine `planned`."""
    opened, memory = uproot.open(path)[tree], Memory(path.read_bytes())
    if isinstance(opened, uproot.TTree):
        reader = SelectionReader(
            Header.of(opened, {}), memory, link, batch, foreign=Decoder({n: branches_of(opened)[n] for n in names})
        )
    else:
        reader = PageReader(Pages.of(opened), int(opened.num_entries), memory, link, batch=batch)
    found, spent = {}, Spent()
    for name, array in reader.read(names, entries, spent):
        if isinstance(array, tuple):
            array = ak.unflatten(ak.Array(array[1]), np.diff(array[0]))
        found.setdefault(name, []).append(ak.Array(array))
    assert spent.decoded == len(names) * len(entries)
    return {name: ak.concatenate(parts) for name, parts in found.items()}


def by_uproot(path, tree, table, names, entries):
    """Return branch -> array of these entries, as read by the engine `uproot-s3fs`."""
    file = uproot.open(path)
    kind = Reader if isinstance(file[tree], uproot.TTree) else TupleReader
    reader = kind(SimpleNamespace(latest_ns=2**63 - 1), str(path), tree, table, names, 0)
    reader.file, reader.source = file, file.file.source
    reader.look(file[tree])
    rows, _, ranges = reader.plan(entries)
    inside, held = reader.embedded(entries) if kind is Reader else (rows[:0], [])
    chunks = [reader.source.chunk(o, o + s) for o, s in ranges]
    reader.verify(rows, chunks)
    data = reader.decompress(rows, chunks)
    assert reader.deserialise(rows, data, entries) == (len(names), len(rows) + len(inside), len(names) * len(entries))
    found = (
        reader.arrays(np.concatenate((rows, inside)), data + held, entries)
        if kind is Reader
        else reader.pages.arrays(names, data, entries)
    )
    parts = {}
    for name, array in found:
        parts.setdefault(name, []).append(ak.Array(array))
    return {name: ak.concatenate(p) for name, p in parts.items()}


def hold_against_uproot(path, tree, entries, percent=100):
    """Check that both readers return the same as `branch.array()` for every readable branch. Return their number."""
    facts, table = own_file.look(path, "mine", tree)
    names = baskets.select_branches(table, percent, facts["unreadable"])
    ours, theirs = by_the_decoder(path, tree, names, entries), by_uproot(path, tree, table, names, entries)
    assert set(ours) == set(theirs) == set(names)
    opened = uproot.open(path)[tree]
    held = branches_of(opened) if isinstance(opened, uproot.TTree) else opened
    for name in names:
        expected = held[name].array()[entries]
        for found in (ours[name], theirs[name]):
            assert ak.array_equal(found, expected, equal_nan=True, check_parameters=False, dtype_exact=False), name
    return len(names)


def rows_of(layout, name, entries):
    rows, _, _ = baskets.ranges(layout, [name], entries)
    return rows[np.argsort(layout.basket[rows])]


def decoded(data, layout, name, form, entries):
    rows = rows_of(layout, name, entries)
    contents = [decode.unpack(data[o : o + s]) for o, s in zip(layout.offset[rows], layout.size[rows], strict=True)]
    wanted = [
        entries[(entries >= a) & (entries < b)] - a
        for a, b in zip(layout.entry_start[rows], layout.entry_stop[rows], strict=True)
    ]
    return decode.take(form, contents, wanted)


def same(form, found, expected):
    if isinstance(form, decode.Flat):
        return np.array_equal(found, expected.to_numpy(), equal_nan=found.dtype.kind == "f")
    offsets, values = found
    counts, flat = ak.num(expected, axis=1).to_numpy(), ak.flatten(expected, axis=1).to_numpy()
    return np.array_equal(np.diff(offsets), counts) and np.array_equal(values, flat, equal_nan=values.dtype.kind == "f")


def compare(path, tree_name, entries):
    """Check that all branches are decoded like in uproot. Return the number of those decoded by storelab."""
    data = np.fromfile(path, np.uint8)
    with uproot.open(path) as file:
        tree = file[tree_name]
        objects = dict(tree.iteritems(recursive=True, full_paths=True))
        layout = baskets.Baskets.from_tree(objects)
        n = 0
        for name, branch in objects.items():
            form = decode.form_of(branch.interpretation)
            whole = int(branch.member("fEntryNumber")) == sum(
                (layout.entry_stop - layout.entry_start)[layout.branch == layout.names.index(name)]
            )
            if form is None or not whole:
                continue
            assert same(form, decoded(data, layout, name, form, entries), branch.array()[entries]), name
            n += 1
    return n
