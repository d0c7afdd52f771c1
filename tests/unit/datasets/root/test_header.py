"""Headers and side-car files of ROOT files: their columns, their form, and baskets inside the header."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storelab.datasets.root import baskets, header
from storelab.datasets.root.header import Header


def test_side_car_needs_its_columns_and_its_facts(tmp_path):
    """One of them is not enough."""
    facts = {"storelab": json.dumps({"tree": "t"})}
    good = pa.table({f.name: pa.array([], f.type) for f in baskets.SCHEMA}, schema=baskets.SCHEMA)
    other = pa.table({"branch": [1]})
    assert [(f.name, str(f.type)) for f in baskets.SCHEMA] == [
        ("branch", "dictionary<values=string, indices=int32, ordered=0>"),
        ("basket", "int32"),
        *((name, "int64") for name in ("entry_start", "entry_stop", "offset", "size")),
        ("crc32", "uint32"),
    ]
    pq.write_table(good.replace_schema_metadata(facts), tmp_path / "x.parquet")
    assert baskets.facts(baskets.read(tmp_path / "x.parquet")) == {"tree": "t"}
    for table, metadata in ((good, {}), (other, facts), (other, {})):
        pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "x.parquet")
        with pytest.raises(ValueError, match=rf"x.parquet.*{', '.join(table.schema.names)}$"):
            baskets.read(tmp_path / "x.parquet")


class Held:
    """A branch of 9 entries, of which the header holds those from 6 on."""

    num_entries = 9

    def __init__(self, *counts):
        self.counts = counts

    @property
    def embedded_baskets(self):
        if not self.counts:
            raise ValueError("no basket")
        return [SimpleNamespace(num_entries=n) for n in self.counts]


def test_baskets_of_the_header_count_where_whole():
    for counts, found in (((3,), [3]), ((1, 0, 2), [1, 2]), ((2,), []), ((4,), []), ((0,), []), ((), [])):
        held = baskets._inside(Held(*counts), 6)
        assert isinstance(held, list) and [b.num_entries for b in held] == found, counts


def test_header_of_another_form_is_not_read(tmp_path):
    """The file has the number of its form: 2 today."""
    path = tmp_path / "h.parquet"
    layout = baskets.Baskets(["x"], *(np.array([n], "i8") for n in (0, 0, 0, 5, 100, 9)))
    Header("t", 5, layout, [None], {"url": "u"}).save(path)
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[b"storelab"])
    assert facts["version"] == header.VERSION == 2 and table.schema.names == list(header.COLUMNS)
    for version in (2, 1, 3, None):
        changed = {"storelab": json.dumps(facts | {"version": version})}
        pq.write_table(table.replace_schema_metadata(changed), path)
        assert (Header.load(path, {"url": "u"}) is not None) == (version == 2)
    for broken in (b"", b"no parquet"):
        path.write_bytes(broken)
        assert Header.load(path, {"url": "u"}) is None
    pq.write_table(table.replace_schema_metadata({}), path)
    assert Header.load(path, {"url": "u"}) is None
