"""Binlogs that real MySQL servers wrote, as vectors: events in hex, each with the output of `mariadb-binlog -vv`.

A vector file has lines "= HEX", one for an event, and lines "### ..." with the tool's output without its comments.
`python -m tests.support.recordings BINLOG ORIGIN > FILE` makes one; large row events are left out of it.
"""

from __future__ import annotations

import itertools
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.sources.mysql.events import Action, Event, Mapped, Parser, Payload, Rows
from slotkeeper.core.sources.mysql.events import events as unpacked
from slotkeeper.core.sources.mysql.events import packets as packets_inside
from slotkeeper.core.sources.mysql.rows import Column, Decoder, Described, Row, SchemaColumn, columns_of
from slotkeeper.core.sources.mysql.table_map import PhysicalColumn, TableMap, Type

VECTORS = Path(__file__).parents[1] / "fixtures" / "recordings"
FOLDER = "SLOTKEEPER_RECORDINGS"
"""The environment variable that names a folder of further binlogs."""
CHARSETS = {8: "latin1", 33: "utf8mb3", 45: "utf8mb4", 63: "binary", 224: "utf8mb4", 255: "utf8mb4"}
MAGIC = b"\xfebin"
_LARGEST = 1000
_FORMAT, _TABLE, _PAYLOAD = 15, 19, 40
_ROWS = frozenset({23, 24, 25, 30, 31, 32})
_KINDS = {
    Type.TINY: "tinyint",
    Type.SHORT: "smallint",
    Type.INT24: "mediumint",
    Type.LONG: "int",
    Type.LONGLONG: "bigint",
    Type.FLOAT: "float",
    Type.DOUBLE: "double",
    Type.YEAR: "year",
    Type.DATE: "date",
    Type.NEWDECIMAL: "decimal",
    Type.BIT: "bit",
    Type.JSON: "json",
    Type.ENUM: "enum",
    Type.SET: "set",
    Type.TIME2: "time",
    Type.DATETIME2: "datetime",
    Type.TIMESTAMP2: "timestamp",
    Type.VARCHAR: "varchar",
    Type.STRING: "char",
    Type.GEOMETRY: "geometry",
}
_BLOBS = {1: "tinytext", 2: "text", 3: "mediumtext", 4: "longtext"}


def described(table: TableMap) -> Described:
    """The columns as in information_schema: texts are utf8mb4, integers are signed."""
    return tuple(_described(one, f"c{place}") for place, one in enumerate(table.columns, 1))


def _described(one: PhysicalColumn, name: str) -> SchemaColumn:
    kind = _BLOBS[one.first] if one.code == Type.BLOB else _KINDS[one.code]
    full = f"{kind} unsigned" if one.unsigned else kind
    numbers = {"precision": one.second if one.code == Type.BIT else one.first, "scale": one.second}
    return SchemaColumn(one.name or name, kind, full, one.nullable, "utf8mb4", one.first, **numbers, fraction=one.first)


@dataclass(slots=True)
class Vectors:
    """A vector file: events, and the tool's lines for them."""

    events: list[bytes]
    printed: list[str]


def load(path: Path) -> Vectors:
    found = Vectors([], [])
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            found.events.append(bytes.fromhex(line[2:]))
        elif line.startswith("###"):
            found.printed.append(line)
    return found


def events_of(binlog: bytes) -> Iterator[bytes]:
    at = len(MAGIC)
    while at < len(binlog):
        size = struct.unpack_from("<I", binlog, at + 9)[0]
        yield binlog[at : at + size]
        at += size


def read(packets: Iterable[bytes]) -> Iterator[Event]:
    """The events as the source reads them, a compressed transaction replaced by its events."""
    parser = Parser()
    for packet in packets:
        event = parser.parse(packet)
        if isinstance(event, Payload):
            yield from (one for _, one in unpacked(event))
        else:
            yield event


def lines(packets: Iterable[bytes]) -> list[str]:
    """Rows as the source decodes them, written as the tool writes them."""
    tables, found = dict[int, tuple[TableMap, Decoder]](), list[str]()
    for event in read(packets):
        if isinstance(event, Mapped):
            table = event.table
            tables[table.number] = table, Decoder(columns_of(table, described(table), CHARSETS))
        elif isinstance(event, Rows):
            table, decoder = tables[event.table_id]
            changes = decoder.changes(event)
            name, columns = f"`{table.schema}`.`{table.table}`", decoder.columns
            if event.action is Action.UPDATE:
                for old, new in zip(changes.before, changes.after, strict=True):
                    found += [
                        f"### UPDATE {name}",
                        "### WHERE",
                        *_values(columns, old),
                        "### SET",
                        *_values(columns, new),
                    ]
            head = [f"### INSERT INTO {name}", "### SET"]
            if event.action is Action.DELETE:
                head = [f"### DELETE FROM {name}", "### WHERE"]
            if event.action is not Action.UPDATE:
                for row in changes.after or changes.before:
                    found += [*head, *_values(columns, row)]
    return found


def _values(columns: Iterable[Column], row: Row) -> list[str]:
    shown = (_shown(column.shown, value) for column, value in zip(columns, row, strict=True))
    return [f"###   @{place}={text}" for place, text in enumerate(shown, 1)]


def _shown(kind: str, value: Any) -> str:
    """A value as the tool writes it: timestamps as seconds, texts in quotes."""
    if value is None:
        return "NULL"
    if kind.startswith("timestamp"):
        moment = datetime.fromisoformat(value).replace(tzinfo=timezone.utc)
        return f"{int(moment.timestamp())}{value[19:]}"
    if kind.startswith("decimal"):
        return str(value)
    if isinstance(value, str):
        return "'" + "".join(f"\\x{ord(one):02x}" if ord(one) < 32 else one for one in value) + "'"
    return f"{value:.20g}" if isinstance(value, float) else str(value)


# -- the server's own tool --------------------------------------------------------------------------------------------


def tool() -> str:
    """The program; skips the test where it is not installed."""
    found = shutil.which("mariadb-binlog")
    if found is None:
        pytest.skip("mariadb-binlog is not installed (Debian: mariadb-client)")
    return found


def printed(packets: Iterable[bytes], folder: Path, program: str) -> list[str]:
    """The tool's lines for these events. It reads no compressed transactions, so their events are written out."""
    whole = folder / "mysql-bin.000001"
    whole.write_bytes(MAGIC + b"".join(_plain(packets)))
    done = subprocess.run([program, "-vv", whole], capture_output=True, check=True, timeout=60)
    return [_kept(line) for line in done.stdout.decode().splitlines() if line.startswith("###")]


def _kept(line: str) -> str:
    """Return a line without the tool's comment, and without the unsigned number next to a negative one."""
    return re.sub(r"^(###   @\d+=-\d+) \(\d+\)$", r"\1", re.sub(r" /\* [^*]* \*/$", "", line))


def _plain(packets: Iterable[bytes]) -> Iterator[bytes]:
    parser, checksum = Parser(), False
    for packet in packets:
        event = parser.parse(packet)
        if packet[4] == _FORMAT:
            checksum = bool(packet[-5])
        if isinstance(event, Payload):
            yield from (_sealed(one) if checksum else one for _, one in packets_inside(event))
        else:
            yield packet


def _sealed(packet: bytes) -> bytes:
    raw = packet[:9] + struct.pack("<I", len(packet) + 4) + packet[13:]
    return raw + struct.pack("<I", zlib.crc32(raw))


# -- making a vector file ---------------------------------------------------------------------------------------------


def kept(packets: Iterable[bytes]) -> Iterator[bytes]:
    """Return the file's first event, and each small event of rows with its table's description.

    Of a file without rows of its own, all events.
    """
    every = list(packets)
    if not any(packet[4] in _ROWS for packet in every):
        yield from every
        return
    yield every[0]
    for table, rows in itertools.pairwise(every):
        if table[4] == _TABLE and rows[4] in _ROWS and len(rows) <= _LARGEST:
            yield from (table, rows)


def write(binlog: Path, origin: str) -> str:
    program = shutil.which("mariadb-binlog")
    if program is None:
        raise SystemExit("mariadb-binlog is not installed")
    chosen = list(kept(events_of(binlog.read_bytes())))
    version = chosen[0][21:71].rstrip(b"\0").decode()
    found = [
        f"# {binlog.name} of {origin}: events that MySQL {version} wrote (=), and the lines of mariadb-binlog -vv."
    ]
    with tempfile.TemporaryDirectory() as folder:
        for number, packet in enumerate(chosen):
            found.append(f"= {packet.hex()}")
            if packet[4] in (*_ROWS, _PAYLOAD):
                before = [chosen[0], chosen[number - 1]] if packet[4] in _ROWS else [chosen[0]]
                found += printed([*before, packet], Path(folder), program)
    return "\n".join(found) + "\n"


if __name__ == "__main__":
    sys.stdout.write(write(Path(sys.argv[1]), sys.argv[2]))
