"""Store the contents of all point folders of a closed campaign in a few files.

`runs.parquet` has one row for each file of a point: `point` (its key), `file`, and its `text` (JSON, unchanged) or its
number of `rows` (Parquet). `<table>.parquet` (for example `ops`, `reads`, `monitor`) has the rows of all files
`<table>.<client>.parquet`, sorted by the additional first columns `point` and `file`. `SHA256SUMS.measured` has the
checksums of the original files.
"""

import functools
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core import records
from storelab.core.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

RUNS, MEASURED_SUMS = "runs.parquet", "SHA256SUMS.measured"
# Folders next to `raw/`: the new form while it is written, and the old form until it is removed.
SEALING, MEASURED = "raw.sealing", "raw.measured"
# minimum number of rows of a row group except the last one, because a damaged byte can make a group unreadable
GROUP = 50_000
UNREADABLE = (OSError, ValueError, NotImplementedError)  # exceptions of Arrow for a damaged file
RESTORE = "restore it: a sealed campaign does not change"
LEVEL = 9  # level of zstd compression, which is high because files are written once and read often


@dataclass(frozen=True)
class Index:
    """The content of `runs.parquet`: the text or the number of rows of each file, by key and file."""

    texts: Mapping[str, Mapping[str, bytes]]
    rows: Mapping[str, Mapping[str, int]]

    @property
    def names(self) -> set[str]:
        """Return the paths, relative to `raw/`, that the files had before sealing."""
        return {
            f"{key}/{file}"
            for files in (self.texts, self.rows)
            for key, files_of_key in files.items()
            for file in files_of_key
        }


def refuse_half_sealed(raw: Path) -> None:
    """Raise UserError if sealing was interrupted between its two renames."""
    if not raw.exists() and raw.with_name(MEASURED).is_dir():
        hint = f"run `storelab seal {raw.parent}` again"
        raise UserError(str(raw.parent), "sealing was interrupted", hint)


def is_sealed_form(raw: Path) -> bool:
    """Return True if the records are stored in the compact form of sealed campaigns."""
    return (raw / RUNS).exists()


def index(raw: Path) -> Index:
    """Return the content of `runs.parquet`. Raises UserError if it cannot be read."""
    path = raw / RUNS
    state = path.stat()
    return _index(path, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=32)
def _index(path: Path, _mtime_ns: int, _size: int) -> Index:
    try:
        table = records.read_table(path).to_pydict()
        texts: dict[str, dict[str, bytes]] = defaultdict(dict)
        rows: dict[str, dict[str, int]] = defaultdict(dict)
        for key, file, text, number in zip(*(table[c] for c in ("point", "file", "text", "rows")), strict=True):
            if text is None:
                rows[key][file] = number
            else:
                texts[key][file] = text.encode()
    except (*UNREADABLE, KeyError) as error:
        raise UserError(str(path), f"cannot be read ({type(error).__name__}): the file is damaged", RESTORE) from None
    return Index(dict(texts), dict(rows))


def tables(raw: Path) -> dict[str, Path]:
    """Return the file of each existing table."""
    return {p.stem: p for p in sorted(raw.glob("*.parquet")) if p.name != RUNS}


def write(raw: Path, files: Iterable[Path], target: Path) -> None:
    """Write the files of a campaign's `raw/` in the sealed form into the folder `target`, and compare all rows.

    Plan and manifests are copied. Raises UserError if the written rows differ from the originals.
    """
    texts: list[tuple[str, str, Path]] = []
    parts: dict[str, list[tuple[str, str, Path]]] = defaultdict(list)
    for path in files:
        name = path.relative_to(raw)
        place = (name.parent.as_posix(), name.name, path)
        if name.parent == Path() or name.parts[0] == "manifests" or path.suffix not in (".json", ".parquet"):
            records.write_atomic(target / name, path.read_bytes())
        elif path.suffix == ".json":
            texts.append(place)
        else:
            parts[path.name.partition(".")[0]].append(place)
    counted = {name: _write_table(target / f"{name}.parquet", name, sorted(found)) for name, found in parts.items()}
    rows = {place: number for numbers in counted.values() for place, number in numbers.items()}
    lines: list[tuple[str, str, str | None, int | None]]
    lines = [(key, file, path.read_bytes().decode(), None) for key, file, path in texts]
    lines += [(key, file, None, number) for (key, file), number in rows.items()]
    columns = zip(*sorted(lines, key=lambda line: line[:2]), strict=True) if lines else ((),) * 4
    kinds = {"point": "string", "file": "string", "text": "string", "rows": "int64"}
    _write(target / RUNS, kinds, [dict(zip(kinds, columns, strict=True))])


def _schema(name: str, found: Iterable[Path]) -> "pa.Schema":
    """Return the declared columns of a table, followed by additional columns of its files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    declared = {"ops": records.OPS, "reads": records.READS}.get(name) or records.TABLES.get(name, {})
    key_columns = {"point": "string", "file": "string"}
    fields = {f.name: f.type for f in records.arrow_schema(key_columns | declared)}
    for schema in {pq.read_schema(path) for path in found}:
        assert not key_columns.keys() & set(schema.names), "a table has a column of this name"
        fields |= {f.name: f.type for f in schema if f.name not in fields}
    plain = {c: kind.value_type if pa.types.is_dictionary(kind) else kind for c, kind in fields.items()}
    return pa.schema(plain.items())


def _write_table(path: Path, name: str, parts: list[tuple[str, str, Path]]) -> dict[tuple[str, str], int]:
    """Write the concatenated rows of files, and return the number of rows of each file.

    Raises UserError if the written rows differ from the originals.
    """
    schema = _schema(name, (source for *_, source in parts))
    numbers: dict[tuple[str, str], int] = {}

    def groups() -> Iterator["pa.Table"]:
        import pyarrow as pa

        waiting: list[pa.Table] = []
        for place, (key, file, source) in enumerate(parts):
            part = _plain(records.read_table(source), schema, key, file)
            numbers[key, file] = len(part)
            waiting.append(part)
            whole = place + 1 == len(parts) or parts[place + 1][0] != key
            if whole and (sum(map(len, waiting)) >= GROUP or place + 1 == len(parts)):
                yield pa.concat_tables(waiting)
                waiting = []

    _write(path, schema, groups())
    for was, now in zip(groups(), row_groups(path), strict=True):
        if not was.equals(now):
            raise UserError(str(path), "differs from the rows that were measured", "check the disk, then seal again")
    return numbers


def _plain(table: "pa.Table", schema: "pa.Schema", key: str, file: str) -> "pa.Table":
    """Return the rows of one file with all columns of the schema."""
    import pyarrow as pa

    n, constants = len(table), {"point": key, "file": file}
    columns = [
        pa.array([constants[f.name]] * n, f.type)
        if f.name in constants
        else table[f.name].cast(f.type)
        if f.name in table.column_names
        else pa.nulls(n, f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def _write(path: Path, schema: "pa.Schema | Mapping[str, str]", groups: Iterable[Any]) -> None:
    """Write and sync tables (or columns) as one row group each, with a checksum of each page."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = records.arrow_schema(schema) if isinstance(schema, Mapping) else schema
    words = [f.name for f in schema if pa.types.is_string(f.type) and f.name != "text"]
    repeated = [*words, *(c for c in records.REPEATED if c in schema.names and c not in words)]
    numbers = [f.name for f in schema if f.name.endswith(("_ns", "bytes")) and f.name not in repeated]
    options = {
        "compression": "zstd",
        "compression_level": LEVEL,
        "use_dictionary": repeated,
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        "write_statistics": ["point"],
        "write_page_checksum": True,
    }
    with open(path, "wb") as file:
        with pq.ParquetWriter(file, schema, **options) as writer:
            for group in groups:
                table = group if isinstance(group, pa.Table) else pa.table(group, schema=schema)
                writer.write_table(table, row_group_size=max(1, len(table)))
        file.flush()
        os.fsync(file.fileno())


def row_groups(path: Path) -> Iterator["pa.Table"]:
    """Yield the row groups of a file after verifying the checksums of their pages."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number)


def where_damaged(path: Path) -> str:
    """Return which points have rows in a file that cannot be read, or "" if all rows can be read."""
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
    except UNREADABLE:
        return "none of its rows can be read"
    for number in range(file.num_row_groups):
        try:
            file.read_row_group(number)
        except UNREADABLE:
            keys = file.metadata.row_group(number).column(0).statistics
            return f"row group {number} cannot be read, with the points {keys.min} to {keys.max}" if keys else ""
    return ""
