"""Measuring processes do not load pandas: it takes time and memory, and pyarrow asks for it."""

import subprocess
import sys

import pytest

from storelab.gang import prefork

CODE = """
import sys
from storelab.core import records
from pathlib import Path
from storelab.gang import prefork
prefork.without_pandas()
records.write_table(Path(sys.argv[1]), {"n": "int64"}, {"n": [1, 2]})
try:
    import pandas
except ModuleNotFoundError as error:
    print(error.name, "pandas" in sys.modules)
"""


def test_process_writes_records_without_pandas(tmp_path):
    table = tmp_path / "t.parquet"
    done = subprocess.run([sys.executable, "-c", CODE, str(table)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pandas", "False"] and table.exists()


def test_refusal_of_pandas_is_asked_first(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    prefork.without_pandas()
    with pytest.raises(ModuleNotFoundError, match="pandas"):
        sys.meta_path[0].find_spec("pandas")
    assert sys.meta_path[0].find_spec("numpy") is None
