"""Rows of Parquet files in one scan, each with what its file maps to."""

import pyarrow as pa
import pyarrow.parquet as pq

from storelab.analysis.records import scan


def test_rows_of_files_bear_what_their_file_maps_to(tmp_path):
    """Two scans at once are apart, though they are of one database."""
    for name, values in (("a", [1, 2, 3]), ("b", [4, 5])):
        pq.write_table(pa.table({"value": values}), tmp_path / f"{name}.parquet")
    both = scan.of_files({str(tmp_path / "a.parquet"): "first", str(tmp_path / "b.parquet"): "second"})
    alone = scan.of_files({str(tmp_path / "b.parquet"): "other"}, "point")
    rows = "SELECT * FROM rows ORDER BY value"
    assert both.execute(rows).fetchall() == [(1, "first"), (2, "first"), (3, "first"), (4, "second"), (5, "second")]
    assert alone.execute(rows).df().to_dict("list") == {"value": [4, 5], "point": ["other", "other"]}
