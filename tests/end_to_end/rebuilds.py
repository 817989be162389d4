"""Everything that a project has made, in a form in which two makings can be compared to the bit.

Left out are times of making, and what nothing refers to any more: files of partitions that are gone, texts that no
corpus has. How embeddings are cut into parts depends on when texts came; what they hold does not.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from conftest import Project
from safetensors import safe_open

from disent_assets.duckdb_warehouse import query
from disent_core.storage.tables import content_fingerprint

Made = Mapping[str, object]
"""What is made, by its name; equal values are equal to the bit."""


def tables(home: Path) -> Made:
    """Fingerprint of inputs and of rows of every table but the embeddings."""
    folder, found = home / "tables", {}
    for path in sorted(folder.rglob("*.parquet")):
        name = path.relative_to(folder)
        if name.parts[0] != "embeddings":
            table = pq.read_table(path)
            footer = table.schema.metadata or {}
            found[name.as_posix()] = (footer[b"disent.inputs"], timeless(table), table.num_rows)
    return found


def timeless(table: pa.Table) -> str:
    """Fingerprint of the rows, in their order, without times."""
    times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    return content_fingerprint(table.drop_columns(times))


def heads(home: Path) -> Made:
    """Every weight, and what the files say of themselves."""
    found = {}
    for path in sorted((home / "heads").rglob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            weights = {key: (file.get_tensor(key).shape, file.get_tensor(key).tobytes()) for key in sorted(file.keys())}
            told = file.metadata()
        name = path.relative_to(home).as_posix()
        found |= {name: (hashlib.sha256(repr(weights).encode()).hexdigest(), told)}
        found |= {f"{name}, settings": path.with_suffix(".json").read_text(encoding="utf-8")}
    return found


def embeddings(home: Path) -> Made:
    """The bytes of each text's vector and states, by table, encoder, language and key."""
    folder, found = home / "tables" / "embeddings", {}
    for part in sorted(folder.rglob("part-*.parquet")):
        table, place = pq.read_table(part), part.parent.relative_to(folder).as_posix()
        keys, values = table["text_key"].to_pylist(), table.column(1).combine_chunks()
        for row, key in enumerate(keys):
            found[f"{place}/{key}"] = repr(values[row].as_py())
    return found


def warehouse(home: Path) -> Made:
    """Rows of every table and view, in any order, without times."""
    path = home / "warehouse.duckdb"
    names = query(path, "select table_schema || '.' || table_name as name from information_schema.tables")
    return {name: sorted(_rows(query(path, f"select * from {name}"))) for name in names["name"].to_pylist()}


def _rows(table: pa.Table) -> Iterator[str]:
    kept = [field.name for field in table.schema if not pa.types.is_timestamp(field.type)]
    for row in table.select(kept).to_pylist():
        yield json.dumps(row, default=repr, ensure_ascii=False)


def differences(refreshed: Project, rebuilt: Project) -> list[str]:
    """What a rebuild has that the refreshed project does not have just so; of the warehouse, what either has."""
    found = []
    for read in (tables, heads, embeddings):
        old, new = read(refreshed.home), read(rebuilt.home)
        assert new, read.__name__
        found += [f"{name}: {_told(old.get(name), value)}" for name, value in new.items() if old.get(name) != value]
    old, new = warehouse(refreshed.home), warehouse(rebuilt.home)
    found += [f"{name}: {_first(old.get(name), new.get(name))}" for name in old | new if old.get(name) != new.get(name)]
    return found


def _told(old: object, new: object) -> str:
    return "absent" if old is None else f"{str(old)[:200]} is not {str(new)[:200]}"


def _first(old: object, new: object) -> str:
    """A row that only one of them has."""
    only = [sorted(set(a or ()) - set(b or ()))[:1] for a, b in ((old, new), (new, old))]
    return f"only refreshed {only[0]}, only rebuilt {only[1]}"
