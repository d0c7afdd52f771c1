"""Unpack the records of a sealed campaign into a folder for each point, as before the seal."""

import json
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from storelab.core import records, sealed


def write(raw: Path, target: Path) -> None:
    """Write the records below `raw` into `target`, without checksums and seal. Each run.json gets the new checksums."""
    shutil.copytree(raw / "manifests", target / "manifests")
    shutil.copy(raw / "plan.json", target)
    tables = {name: pq.read_table(path) for name, path in sealed.tables(raw).items()}
    index = sealed.index(raw)
    for key, files in index.rows.items():
        (target / key).mkdir(parents=True)
        for file in files:
            table = tables[file.partition(".")[0]]
            rows = table.filter((pc.field("point") == key) & (pc.field("file") == file))
            pq.write_table(rows.drop_columns(["point", "file"]), target / key / file)
    for key, texts in index.texts.items():
        for name, text in texts.items():
            content = json.loads(text)
            if "files" in content:
                content["files"] = records.file_entries(target / key / file for file in content["files"])
            records.write_summed(target / key / name, content)
