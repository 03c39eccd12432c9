"""The BE of the stand-in: it accepts loads and their second phase, and serves the error pages that list rejected rows.

Sources of the responses: stream_load, stream_load_2pc and stream_load_context of the BE (docs/adr/0041); fields as in
2.1.
"""

from __future__ import annotations

import gzip
import io
import secrets
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from slotkeeper.demo.doris.faults import Call, Fault, Faults
from slotkeeper.demo.doris.header import NotParsed, columns_of
from slotkeeper.demo.doris.http import LOOPBACK, Request
from slotkeeper.demo.doris.tables import SEQUENCE, SIGN, Loaded, Table, Tables
from slotkeeper.demo.doris.transactions import (
    DECIDED,
    EXISTING,
    LabelTaken,
    Refused,
    State,
    Transaction,
    Transactions,
)

_FAILED = "Fail"
_NO_ROW = "all partitions have no load data"


@dataclass
class Backend:
    """The responses of the BE; `pages` maps file names to error pages."""

    user: str
    faults: Faults
    transactions: Transactions
    tables: Tables
    port: int = 0
    two_phase: bool = True
    scheme: str = "http"
    packs_json: bool = True
    """Whether the BE accepts compressed JSON, as Doris 3.0.5 and later do."""
    fails_without_rows: bool = True
    """Whether a load without any valid row fails at any ratio (apache/doris #8133), as in older versions."""
    pages: dict[str, str] = field(default_factory=dict)
    loads: int = 0

    def respond(self, request: Request) -> None:
        match request.method, request.parts:
            case "GET", ["api", "_load_error_log"]:
                page = self.pages.get(request.query.get("file", ""))
                request.handler.send_text(page or "Errors file not exists", status=200 if page else 404)
            case "PUT", ["api", database, name, "_stream_load"]:
                self._load(request, database, name)
            case "PUT", ["api", database, "_stream_load_2pc"] | ["api", database, _, "_stream_load_2pc"]:
                self._second_phase(request, database)
            case _:
                request.handler.send_text("not found", status=404)

    # -- a load -----------------------------------------------------------------------------------------------------

    def _load(self, request: Request, database: str, name: str) -> None:
        fault = self.faults.next(Call.LOAD)
        if fault is Fault.LOST_BEFORE:
            request.handler.break_off()
            return
        if fault is Fault.HANG:
            self.faults.ended.wait()
            return
        answer = self._loaded(request, database, name, fault)
        if fault is Fault.LOST_AFTER:
            request.handler.break_off()
        elif fault is Fault.TRICKLE:
            request.handler.trickle(self.faults.ended)
        else:
            request.handler.send_json(answer)

    def _loaded(self, request: Request, database: str, name: str, fault: Fault) -> dict[str, Any]:
        headers = request.headers
        label = headers.get("label") or secrets.token_hex(16)
        two_phase = headers.get("two_phase_commit", "false") == "true"
        table = self.tables.find(database, name)
        wrong = "no valid Basic authorization" if request.user != self.user else refusal(headers, self.two_phase)
        if not self.packs_json and headers.get("compress_type"):
            wrong = wrong or "compress data of JSON format is not supported."
        if wrong or table is None:
            return _answer(label, two_phase, _FAILED, wrong or _no_table(self.tables, database, name))
        try:
            one = self.transactions.begin(database, label, float(headers.get("timeout", "600")))
        except LabelTaken as taken:
            return _taken(label, two_phase, taken.other)
        except Refused as error:
            return _answer(label, two_phase, _FAILED, str(error))
        try:
            return self._through(request, table, one, two_phase, fault)
        except Refused as error:
            self.transactions.fail(one, str(error))
            return _answer(label, two_phase, _FAILED, str(error), one.id)
        except Exception as error:
            self.transactions.fail(one, "stream load failed")
            return _answer(label, two_phase, _FAILED, f"[INTERNAL_ERROR]{type(error).__name__}: {error}", one.id)

    def _through(
        self, request: Request, table: Table, one: Transaction, two_phase: bool, fault: Fault
    ) -> dict[str, Any]:
        names = _columns(table, request.headers)
        if fault is Fault.TOO_MANY_VERSIONS:
            raise Refused(
                "[E-235]failed to init rowset builder. version count: 2001, exceed limit: 2000, tablet: 10010"
            )
        if fault is Fault.HANG_MIDWAY:
            request.handler.go_on()
            request.handler.rfile.read(1)
            self.faults.ended.wait()
            raise Refused("the backend stopped")
        body = _body(request)
        if fault is Fault.CUT:
            lines = body.read().splitlines(keepends=True)
            body = io.BytesIO(b"".join(lines[: len(lines) // 2]))
        loaded = self.tables.read(table, body, names, request.headers.get("strict_mode", "false") == "true")
        self.loads += 1
        if loaded.filtered > float(request.headers.get("max_filter_ratio", "0")) * loaded.total:
            self.tables.forget(loaded.staged)
            self.transactions.fail(one, "too many filtered rows")
            url = self._page(loaded)
            return _answer(
                one.label, two_phase, _FAILED, "[DATA_QUALITY_ERROR]too many filtered rows", one.id, loaded, url
            )
        if self.fails_without_rows and loaded.filtered == loaded.total:
            self.tables.forget(loaded.staged)
            self.transactions.fail(one, _NO_ROW)
            url = self._page(loaded) if loaded.total else ""
            return _answer(one.label, two_phase, _FAILED, _NO_ROW, one.id, loaded, url)
        partial = request.headers.get("partial_columns") == "true"
        if partial and not table.merge_on_write:
            raise Refused("errCode = 2, detailMessage = Only unique key merge on write support partial update")
        one.apply = lambda: self.tables.apply(table, loaded.staged, names, partial)
        if two_phase:
            self.transactions.precommit(one)
            return _answer(one.label, two_phase, "Success", "OK", one.id, loaded)
        self.transactions.finish(one, published=fault is not Fault.PUBLISH_TIMEOUT)
        status = "Success" if one.state is State.VISIBLE else "Publish Timeout"
        return _answer(one.label, two_phase, status, "OK", one.id, loaded)

    def _page(self, loaded: Loaded) -> str:
        file = f"__shard_0/error_log_insert_stmt_{secrets.token_hex(8)}"
        self.pages[file] = "\n".join(loaded.errors) + "\n"
        return f"{self.scheme}://{LOOPBACK}:{self.port}/api/_load_error_log?file={file}"

    # -- the second phase -------------------------------------------------------------------------------------------

    def _second_phase(self, request: Request, database: str) -> None:
        fault = self.faults.next(Call.TWO_PHASE)
        if fault is Fault.LOST_BEFORE:
            request.handler.break_off()
            return
        if fault is Fault.HANG:
            self.faults.ended.wait()
            return
        try:
            answer = {"status": "Success", "msg": self._decided(request, database)}
        except Refused as error:
            answer = {"status": "ANALYSIS_ERROR", "msg": f"[ANALYSIS_ERROR]TStatus: {error}"}
        if fault is Fault.LOST_AFTER:
            request.handler.break_off()
        elif fault is Fault.TRICKLE:
            request.handler.trickle(self.faults.ended)
        else:
            request.handler.send_json(answer)

    def _decided(self, request: Request, database: str) -> str:
        given, operation = request.headers.get("txn_id", ""), request.headers.get("txn_operation", "")
        if request.user != self.user:
            raise Refused("no valid Basic authorization")
        if not given.isdigit():
            raise Refused(f"convert txn_id [{given}] failed" if given else "transaction id is empty")
        if not self.tables.has_database(database):
            raise Refused(f"unknown database, database={database}")
        if operation == "commit":
            self.transactions.commit(database, int(given))
        elif operation == "abort":
            self.transactions.abort(database, int(given))
        else:
            raise Refused("transaction operation should be 'commit' or 'abort'")
        return f"transaction [{given}] {operation} successfully."


def refusal(headers: Any, two_phase: bool) -> str:
    """Return why a load with these headers is rejected, "" if it is accepted; unsupported features are named."""
    kind = headers.get("format", "csv").lower()
    if kind != "json":
        what = "" if kind in ("csv", "parquet", "orc") else f"unknown data format, format={kind}"
        return what or f"the stand-in supports only JSON lines, format={kind}"
    if headers.get("read_json_by_line", "false") != "true":
        return "the stand-in supports only JSON lines"
    merge = headers.get("merge_type", "APPEND").upper()
    if merge not in ("APPEND", "DELETE", "MERGE"):
        return f"Invalid merge type {merge}"
    if merge == "MERGE" and not headers.get("delete"):
        return "Excepted DELETE ON clause when merge type is MERGE."
    if merge != "MERGE" and headers.get("delete"):
        return "Not support DELETE ON clause when merge type is not MERGE."
    if headers.get("strict_mode", "false") not in ("true", "false"):
        return "Invalid strict mode format. Must be bool type"
    if not headers.get("timeout", "600").isdigit():
        return "Invalid timeout format"
    if headers.get("two_phase_commit") == "true" and not two_phase:
        return "Two phase commit (2PC) for stream load was disabled"
    left_out = [one for one in ("where", "group_commit", "jsonpaths", "delete") if one in headers]
    return f"the stand-in does not support {', '.join(left_out)}" if left_out else ""


def _columns(table: Table, headers: Any) -> list[str]:
    try:
        names = columns_of(headers.get("columns", ""))
    except NotParsed as error:
        raise Refused(f"errCode = 2, detailMessage = {error}") from error
    twice = next((name for at, name in enumerate(names) if name in names[:at]), "")
    if twice:
        raise Refused(f"errCode = 2, detailMessage = Duplicate column: {twice}")
    if not names:
        hidden = [one.strip() for one in headers.get("hidden_columns", "").split(",") if one.strip()]
        names = [one.name for one in table.columns] + hidden
    unknown = [name for name in names if table.column(name) is None]
    if unknown:
        raise Refused(f"errCode = 2, detailMessage = unknown column [{unknown[0]}] in table [{table.name}]")
    if table.sequence and SEQUENCE not in names:
        what = f"Table {table.name} has sequence column, need to specify the sequence column"
        raise Refused(f"errCode = 2, detailMessage = {what}")
    if SIGN in names and table.model != "UNIQUE":
        raise Refused("errCode = 2, detailMessage = load by MERGE or DELETE is only supported in unique tables.")
    return names


def _body(request: Request) -> BinaryIO:
    """Return the complete body. Raises Refused, which fails the load, if the connection is closed before the end."""
    request.handler.go_on()
    file = cast("BinaryIO", request.handler.rfile)
    if request.headers.get("transfer-encoding", "").lower() == "chunked":
        whole = _chunks(file)
    else:
        length = int(request.headers.get("content-length", "0"))
        whole = file.read(length)
        if len(whole) != length:
            raise Refused("receive body don't equal with body bytes")
    if request.headers.get("compress_type", "").lower() == "gz":
        whole = gzip.decompress(whole)
    return io.BytesIO(whole)


def _chunks(file: BinaryIO) -> bytes:
    pieces: list[bytes] = []
    while True:
        line = file.readline().strip()
        if not line:
            raise Refused("receive body don't equal with body bytes")
        size = int(line, 16)
        piece = file.read(size)
        file.readline()
        if len(piece) != size:
            raise Refused("receive body don't equal with body bytes")
        if not size:
            return b"".join(pieces)
        pieces.append(piece)


def _no_table(tables: Tables, database: str, name: str) -> str:
    if not tables.has_database(database):
        return f"[ANALYSIS_ERROR]TStatus: errCode = 2, detailMessage = unknown database, database={database}"
    return f"[ANALYSIS_ERROR]TStatus: errCode = 7, detailMessage = unknown table, tableName={name}"


def _taken(label: str, two_phase: bool, other: Transaction) -> dict[str, Any]:
    what = f"errCode = 2, detailMessage = Label [{label}] has already been used, relate to txn [{other.id}]"
    answer = _answer(label, two_phase, "Label Already Exists", f"[LABEL_ALREADY_EXISTS]TStatus: {what}")
    existing = "FINISHED" if other.state in DECIDED else EXISTING[other.state]
    return {**answer, "ExistingJobStatus": existing}


def _answer(
    label: str,
    two_phase: bool,
    status: str,
    message: str,
    number: int = -1,
    loaded: Loaded | None = None,
    page: str = "",
) -> dict[str, Any]:
    total, filtered = (loaded.total, loaded.filtered) if loaded else (0, 0)
    answer = {
        "TxnId": number,
        "Label": label,
        "Comment": "",
        "TwoPhaseCommit": "true" if two_phase else "false",
        "Status": status,
        "Message": message,
        "NumberTotalRows": total,
        "NumberLoadedRows": total - filtered,
        "NumberFilteredRows": filtered,
        "NumberUnselectedRows": 0,
        "LoadBytes": 0,
        "LoadTimeMs": 1,
        "BeginTxnTimeMs": 0,
        "StreamLoadPutTimeMs": 0,
        "ReadDataTimeMs": 0,
        "WriteDataTimeMs": 0,
        "CommitAndPublishTimeMs": 0,
    }
    return {**answer, "ErrorURL": page} if page else answer
