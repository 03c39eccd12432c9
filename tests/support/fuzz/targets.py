"""Everything that parses external input, as functions of bytes that raise only the project's named errors."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from slotkeeper.core.config.load import load_usable
from slotkeeper.core.domain import consent, target_seen
from slotkeeper.core.domain.audit import link_of
from slotkeeper.core.domain.reset import OpenReset, backup_of, plan_from
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import ViewSpec
from slotkeeper.core.drivers.pipe import copy_line, rows_of
from slotkeeper.core.errors import ConfigError, RowRefused, SlotkeeperError
from slotkeeper.core.importing import lists, written
from slotkeeper.core.importing.pasted import Pasted, secrets_in
from slotkeeper.core.importing.written import Given
from slotkeeper.core.row_filter import WrongFilter
from slotkeeper.core.row_filter import read as read_filter
from slotkeeper.core.sinks.doris import answers
from slotkeeper.core.sinks.doris.http import HttpAnswer
from slotkeeper.core.sources import registry
from slotkeeper.core.sources.hologres.stream.shard import ShardStream
from slotkeeper.core.sources.mysql import events as binlog
from slotkeeper.core.sources.mysql.faults import BinlogError
from slotkeeper.core.sources.mysql.position import POSITIONS, MysqlPosition, MysqlSet, parse_gtids
from slotkeeper.core.sources.mysql.rows import Decoder, columns_of
from slotkeeper.core.sources.mysql.transactions import TableRows, Transactions
from slotkeeper.core.sources.mysql.values import text_of as json_text
from slotkeeper.core.state import frames
from slotkeeper.core.views.parse import parse as parse_view
from slotkeeper.core.views.plan import ViewRefused
from slotkeeper.demo.hologres.stream_rows import message, row
from tests.architecture.checkout import ROOT
from tests.support import mysql_bytes as made

COLUMNS = [Column("id", "bigint"), Column("t", "text"), Column("n", "numeric(9,2)"), Column("a", "bigint[]")]


@dataclass(frozen=True, slots=True)
class Target:
    """A parser: `run` raises an error for an input that it must not accept like this; `examples` are valid."""

    run: Callable[[bytes], None]
    examples: tuple[bytes, ...]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _binlog(data: bytes) -> None:
    """Events, each after its length in two bytes, as one stream of a table with any columns."""
    parser, stream, at = binlog.Parser(), Transactions(MysqlPosition("b.000001", 4), {("s", "t")}, by_gtid=True), 0
    try:
        while at + 2 <= len(data):
            size = int.from_bytes(data[at : at + 2], "little")
            for event, inside in binlog.parts(parser.parse(data[at + 2 : at + 2 + size])):
                item = stream.take(event, inside)
                if isinstance(item, TableRows) and not item.table.unread:
                    Decoder(columns_of(item.table, None, {255: "utf8mb4", 63: "binary"})).changes(item.rows)
            at += 2 + size
    except BinlogError:
        return


def _mysql_json(data: bytes) -> None:
    try:
        json_text(data)
    except BinlogError:
        return


def _gtids(data: bytes) -> None:
    """A set in the format of a dump request, or positions as texts, which must come back as they were written."""
    try:
        found = MysqlSet.decode(data)
        assert MysqlSet.decode(found.encoded) == found
        assert found.covers(found) and not found.minus(found).done
    except (struct.error, IndexError, ValueError):
        pass
    one, _, other = _text(data).partition("\n")
    try:
        position = POSITIONS.position(one)
        assert POSITIONS.position(position.text) == position
        first, second = position.gtids, parse_gtids(other)
        if isinstance(first, MysqlSet) and isinstance(second, MysqlSet):
            assert first.covers(second) == (not second.minus(first).done)
    except ValueError:
        return


def _slot_stream(data: bytes) -> None:
    """Messages of a Hologres shard, each after its length in two bytes; the first byte decides about compression."""
    stream, at = ShardStream(0, lambda: (1, COLUMNS), compressed=bool(data[:1] and data[0] & 1)), 1
    try:
        while at + 2 <= len(data):
            size = int.from_bytes(data[at : at + 2], "little")
            stream.feed(data[at + 2 : at + 2 + size])
            at += 2 + size
    except SlotkeeperError:
        return


def _doris(data: bytes) -> None:
    """An answer and its error page, in two parts."""
    head, _, page = data.partition(b"\n")
    found = HttpAnswer(200, head, "").json or {}
    message = str(found.get("Message", found.get("msg", _text(head))))
    for read in (answers.related, answers.is_done, answers.is_aborted, answers.code_of, answers.page_name):
        read(message)
    for error in (
        answers.refusal(message, "a.b", answers.counted(found, "NumberFilteredRows")),
        answers.rejected("a.b", found, _text(page), str(found.get("ErrorURL", ""))),
    ):
        assert len(str(error).splitlines()) == 1, error


def _copy_text(data: bytes) -> None:
    """Lines of COPY text; what was read is the same after it was written and read again."""
    try:
        rows = list(rows_of(io.BytesIO(data)))
    except RowRefused:
        return
    if all("\n" not in (value or "") for row in rows for value in row):
        assert list(rows_of(map(copy_line, rows))) == rows


def _config(data: bytes) -> None:
    try:
        load_usable(Path("slotkeeper.toml"), {}, text=_text(data), resolves=False).whole()
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1, error


def _row_filter(data: bytes) -> None:
    try:
        found = read_filter(_text(data))
    except WrongFilter:
        return
    assert found.text


def _view(data: bytes) -> None:
    try:
        parse_view(ViewSpec("dws.v", _text(data)), frozenset({"ods.a", "ods.b"}))
    except ViewRefused as error:
        assert len(str(error).splitlines()) == 1, error


def _import(data: bytes) -> None:
    text = _text(data)
    try:
        pasted = lists.with_canal(Pasted().plus(lists.read(text)))
        text = written.configuration(pasted, Given(secrets=frozenset(secrets_in(text)))).text
        load_usable(Path("imported.toml"), {}, text=text).whole()
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1, error


def _state(data: bytes) -> None:
    """A file of the state folder or a backup, of each kind; documented errors report the damage."""
    text = _text(data)
    link_of("audit.jsonl", 1, data)
    consent.Consent.parse(text)
    consent.Ordered.parse(text)
    target_seen.read(text)
    OpenReset.parse("1", text)
    for read in (lambda: backup_of(text, registry.positions), lambda: plan_from(text, POSITIONS)):
        try:
            read()
        except SlotkeeperError:
            continue
    try:
        frames.frame_of(data)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return


def _sized(*packets: bytes) -> bytes:
    return b"".join(len(one).to_bytes(2, "little") + one for one in packets)


def _examples_of_binlog() -> tuple[bytes, ...]:
    uuid = UUID(int=7)
    names = b"".join(map(made.named, "abc"))
    described = {1: b"\0", 2: made.length(255), 4: names}
    table = made.event(19, made.table_map([3, 15, 246], b"\x14\x00\x0a\x02", fields=described))
    row = made.rows(3, b"\x00" + b"\x01\x00\x00\x00" + b"\x01a" + b"\x80\x00\x00\x00\x01")
    plain = (made.event(33, made.gtid(uuid, 3)), made.event(2, made.query("BEGIN")), table)
    first = made.format_description(checksum=False)
    packed = made.payload([made.event(2, made.query("BEGIN")), table, made.event(30, row), made.event(16, bytes(8))])
    return (
        _sized(first, *plain, made.event(30, row), made.event(16, bytes(8))),
        _sized(first, made.event(33, made.gtid(uuid, 4)), packed),
        _sized(first, made.event(2, made.query("ALTER TABLE t ADD c INT")), made.event(38, made.xa_prepare(b"x"))),
    )


def _examples_of_stream() -> tuple[bytes, ...]:
    types = [one.type for one in COLUMNS]
    rows = [row(lsn, 5, 1_000, types, (lsn, b"a", b"\x64", None)) for lsn in (5, 9)]
    return b"\0" + _sized(message(rows), message()), b"\1" + _sized(b"\0\0\0\4\x40abcd"), b"\0" + _sized(message([b""]))


_CONFIG = (ROOT / "config.example.toml").read_bytes()[:4096]
_GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7:red:1-3"
TARGETS: dict[str, Target] = {
    "binlog": Target(_binlog, _examples_of_binlog()),
    "mysql_json": Target(
        _mysql_json,
        (
            b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x07\x00a",
            b"\x02\x02\x00\x0a\x00\x04\x00\x00\x05\x01\x00",
            b"\x0f\xf6\x05\x0a\x02\x80\x00\x01",
            b"\x0f\x0c\x08" + bytes(8),
            b"\x0c\x03abc",
        ),
    ),
    "gtids": Target(
        _gtids,
        (
            MysqlSet.parse(_GTID).encoded,
            f"b.000003/1234@1700000000-77/{_GTID}|1-6162-@3:900\n{_GTID}".encode(),
            b"b.000003/9/0-1-7~0-2-5!0-1-7@17\n0-1-7",
        ),
    ),
    "slot_stream": Target(_slot_stream, _examples_of_stream()),
    "doris": Target(
        _doris,
        (
            b'{"TxnId": 7, "Label": "l", "Status": "Fail", "Message": "[DATA_QUALITY_ERROR]too many filtered rows",'
            b' "NumberTotalRows": 2, "NumberFilteredRows": 1, "ErrorURL": "http://be:8040/api/_load_error_log?file=a"}'
            b"\nReason: column_name[v], the value [x] cannot be cast. src line [];\n",
            b'{"status": "Fail", "msg": "detailMessage = Label [a] has already been used, relate to txn [77]"}',
        ),
    ),
    "copy_text": Target(_copy_text, (b"7\t\\N\ta\\tb\\\\\n", b"1\t\\b\\f\\n\\r\\t\\v\n\\.\n", "é\t\\x41\n".encode())),
    "config": Target(_config, (_CONFIG, b'[sources.a]\nkind = "mysql"\nhost = "h"\n[jobs.x]\nsource = "a"\n')),
    "row_filter": Target(
        _row_filter,
        (b"a > 1 AND \"B\" IN ('x', 'y''z')", b"coalesce(lower(t), '') LIKE 'a%' or not d between 1 and 2::int"),
    ),
    "view": Target(
        _view,
        (
            b"SELECT a.x, count(*) AS n, sum(a.z) AS z FROM ods.a AS a WHERE a.y > 1 GROUP BY a.x HAVING count(*) > 1",
            b"SELECT a.id, b.x FROM ods.a LEFT JOIN ods.b ON b.id = a.b UNION ALL SELECT id, x FROM ods.b",
        ),
    ),
    "import": Target(
        _import,
        (
            b"CREATE TABLE s (id INT) WITH ('connector' = 'dws', 'password' = 'p', 'url' = 'jdbc:gaussdb://h:1/d',"
            b" 'tableName' = 'a.b', 'binlog' = 'true'); INSERT INTO t SELECT * FROM s;",
            b'{"name": "x", "config": {"connector.class": "io.debezium.connector.mysql.MySqlConnector"}}',
            b"canal.instance.master.address=h:3306\ncanal.instance.filter.regex=a\\..*\n",
        ),
    ),
    "state": Target(
        _state,
        (
            b'{"at": 1.0, "job": "a", "report": null, "lags": {}, "state": "RUNNING", "wanted": "run"}',
            b'{"dialect": "mysql", "lanes": [{"row": {"key": {}}, "kept": "nothing"}], "columns": [["a", "int"]]}',
            b'{"id": "x", "goal": {"kind": "latest", "points": []}, "moves": [], "checks": [], "sql": [], "notes": []}',
            b'{"oid": 1, "rows": 2, "home": "h", "members": [1]}',
        ),
    ),
}
