"""Loads of one channel into its target: ranges, pre-committed under a label and committed by number, or whole chunks.

Implements `slotkeeper.core.ports.sink.LabelSink`; `answers.py` interprets Doris's answers.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from slotkeeper.core.domain.quarantine import Refusal
from slotkeeper.core.errors import AccessRefused, Busy, RowRefused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.sink import Batch, Fields, Outcome
from slotkeeper.core.sinks.doris import answers
from slotkeeper.core.sinks.doris.encode import Body, Layout, body_of
from slotkeeper.core.sinks.doris.http import DorisHttp, HttpAnswer

LOAD_SECONDS = 600
"""The header `timeout` of a load in seconds, after which Doris ends the load; the client's limit is slightly longer."""
GRACE_SECONDS = 10
TRIAL_SECONDS = 60
"""The header `timeout` of a trial, or of an empty load, in seconds. If the abort of a trial is lost after its first
phase, the trial ends automatically after stream_load_default_precommit_timeout_second, an hour (apache/doris,
`TransactionState.isTimeout`).
"""
VISIBLE_SECONDS = 30
"""Seconds that a task waits for a committed load to become visible; the lane's next task waits again."""
SHORT_SECONDS = 30
"""Seconds for a second phase, a label's state, or an error page."""
_TRIES = 3
"""Maximum number of aborts for one label within one task."""


@dataclass
class DorisSink:
    """Loads into one target; `job` is the job's name."""

    http: DorisHttp
    job: str
    target: str
    layout: Layout

    def label(self, batch: Batch) -> str:
        """Return a hash of job, channel, lane and range, and a random number, so that no later plan has this label."""
        key = batch.key
        words = "\x1f".join((self.job, self.target, key.source, key.source_table, key.slot, key.shard, batch.label))
        return f"slotkeeper_{hashlib.sha256(words.encode()).hexdigest()[:32]}_{secrets.token_hex(8)}"

    def send(self, batch: Batch, label: str) -> str:
        body = self.body(batch.rows)
        with body.file:
            for _ in range(_TRIES):
                answer = self.load(body, label, two_phase=True)
                if answer["Status"] != answers.TAKEN:
                    # return the number only of a load that has all rows; a load that lacks rows is aborted
                    number, there = str(answer.get("TxnId", "")), answer.get("NumberLoadedRows")
                    if there == body.rows:
                        return number
                    self.abort(number)
                    raise Busy(
                        f"{self.target}: the load has {there} of {body.rows} rows; the sink aborted it", where="sink"
                    )
                message = str(answer.get("Message", ""))
                existing = str(answer.get("ExistingJobStatus") or "") or answers.EXISTING.get(self.state(label), "")
                if existing == answers.FINISHED:
                    self._wait_visible(label)
                    return ""
                if existing == answers.RUNNING:
                    break
                if existing == answers.PRECOMMITTED:
                    self.abort(answers.related(message))
        raise Busy(f"{self.target}: waiting for another load of the same range", where="sink")

    def commit(self, label: str, load: str) -> Outcome:
        status, message = self.second_phase(load, "commit")
        if status == answers.SUCCESS or answers.is_done(message):
            self._wait_visible(label)
            return Outcome.COMMITTED
        if answers.is_aborted(message):
            return Outcome.ABORTED
        if answers.is_missing(message):
            state = self.state(label)
            if answers.EXISTING.get(state) == answers.FINISHED:
                self._wait_visible(label)
                return Outcome.COMMITTED
            return Outcome.ABORTED if state == "ABORTED" else Outcome.UNKNOWN
        if answers.still_runs(message):
            raise Busy(f"{self.target}: load {load} is not pre-committed yet", where="sink")
        raise answers.refusal(message, self.target)

    def _wait_visible(self, label: str) -> None:
        """Return once a committed load is VISIBLE; raises Busy if Doris does not publish it within VISIBLE_SECONDS.

        The second phase returns once the load is COMMITTED (apache/doris, `FrontendServiceImpl.loadTxn2PCImpl`), but
        readers see its rows once it is VISIBLE. A load whose label Doris has deleted was in a final state. If the state
        is unavailable, the answer to the commit decides.
        """
        end, pause = time.monotonic() + VISIBLE_SECONDS, 0.01
        while self._is_unpublished(label):
            if time.monotonic() >= end:
                what = f"{self.target}: load {label} is committed but not visible yet"
                raise Busy(what, "check whether a BE is down: SHOW BACKENDS", where="sink")
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def _is_unpublished(self, label: str) -> bool:
        try:
            return self.state(label) == "COMMITTED"
        except SlotkeeperError:
            return False

    def abort(self, load: str) -> None:
        if load:
            with suppress(SlotkeeperError):
                self.second_phase(load, "abort")

    def state(self, label: str) -> str:
        """Return the state of the label's newest transaction from `get_load_state`; UNKNOWN if there is none."""
        path = f"/api/{self._database}/get_load_state?label={quote(label)}"
        answer = self.http.ask("GET", path, {}, SHORT_SECONDS)
        found = self._object(answer).get("data")
        if not isinstance(found, str):
            raise answers.unreadable(self.target, answer.status)
        return found

    def clear(self, label: str) -> None:
        """Abort a load that is pre-committed under a label; an empty load under that label returns its number.

        A label that Doris rejects for another reason than being taken has no such load.
        """
        body = self.body(lambda: iter(()))
        try:
            with body.file:
                answer = self.load(body, label, two_phase=True, seconds=TRIAL_SECONDS)
        except (Unreachable, AccessRefused):
            raise
        except SlotkeeperError:
            return
        if answer["Status"] != answers.TAKEN:
            self.abort(str(answer.get("TxnId", "")))
        elif str(answer.get("ExistingJobStatus") or "") == answers.PRECOMMITTED:
            self.second_phase(answers.related(str(answer.get("Message", ""))), "abort")

    # -- trials -----------------------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        return self.layout.columns

    @property
    def types(self) -> tuple[str, ...]:
        return self.layout.types

    @property
    def key(self) -> tuple[int, ...]:
        return self.layout.key

    def trial(self, rows: Callable[[], Iterator[Fields]], count: int, chunk: bool) -> int:
        """Return how many of these rows Doris filters, by pre-committing a load of the rows and aborting it."""
        try:
            answer = self._tried(rows, chunk, "1")
        except RowRefused:
            return count  # some versions report a failed load if no row of the load fits
        self.abort(str(answer.get("TxnId", "")))
        return answers.counted(answer, "NumberFilteredRows")

    def refusal(self, row: Fields, chunk: bool) -> Refusal | None:
        """Return the reason why Doris filters a row, from its error page; None if it accepts the row."""
        try:
            answer = self._tried(lambda: iter((row,)), chunk, "0")
        except RowRefused as error:
            return Refusal(error.code or answers.OTHER, answers.column_of(error.message), error.message)
        self.abort(str(answer.get("TxnId", "")))
        return None

    def _tried(self, rows: Callable[[], Iterator[Fields]], chunk: bool, ratio: str) -> dict[str, Any]:
        """Send a load that is never committed, under its own label and with a short timeout."""
        body = self.body(rows, chunk)
        label = f"slotkeeper_trial_{secrets.token_hex(16)}"
        with body.file:
            return self.load(body, label, two_phase=True, ratio=ratio, seconds=TRIAL_SECONDS)

    def write_chunk(self, batch: Batch) -> None:
        body = self.body(batch.rows, chunk=True)
        with body.file:
            answer = self.load(body, label := self.label(batch), two_phase=False)
        if answer["Status"] == answers.PUBLISH_TIMEOUT:
            self._wait_visible(label)
        there = answer.get("NumberLoadedRows")
        if there != body.rows:
            raise Busy(f"{self.target}: the load has {there} of {body.rows} rows", where="sink")

    def rest(self) -> None:
        """Do nothing: nothing is open between two tasks."""

    def abandon(self) -> None:
        """Do nothing: the plan resolves the sent rows."""

    def close(self) -> None:
        """Do nothing: connections end with their requests."""

    # -- requests ---------------------------------------------------------------------------------------------------

    def body(self, rows: Callable[[], Iterator[Fields]], chunk: bool = False) -> Body:
        """Return the last row of each key as a body; the caller closes its file."""
        return body_of(self.layout, rows, chunk, self._packed)

    @property
    def _packed(self) -> bool:
        return self.http.login.endpoint.compression == "gzip"

    @property
    def _database(self) -> str:
        return quote(self.target.partition(".")[0], safe="")

    def load(
        self, body: Body, label: str, two_phase: bool, ratio: str = "0", seconds: int | None = None
    ) -> dict[str, Any]:
        """Return a load's answer, whose Status is a success or a taken label; raises an error for any other answer."""
        seconds = LOAD_SECONDS if seconds is None else seconds
        headers = {
            "label": label,
            "format": "json",
            "read_json_by_line": "true",
            "columns": self.layout.header,
            "strict_mode": "true",
            "max_filter_ratio": ratio,
            "timeout": str(seconds),
            "two_phase_commit": "true" if two_phase else "false",
            **({"compress_type": "gz"} if self._packed else {}),
            **({"partial_columns": "true"} if self.layout.partial else {}),
        }
        path = f"/api/{self._database}/{quote(self.target.partition('.')[2], safe='')}/_stream_load"
        answer = self.http.ask("PUT", path, headers, seconds + GRACE_SECONDS, body.file, body.size)
        found = self._object(answer)
        status = found.get("Status")
        if status is None and found.get("msg"):
            raise answers.refusal(str(found["msg"]), self.target)
        if status in (answers.SUCCESS, answers.PUBLISH_TIMEOUT, answers.TAKEN):
            return found
        filtered = answers.counted(found, "NumberFilteredRows")
        if found.get("ErrorURL"):
            page = self.http.page(str(found["ErrorURL"]), SHORT_SECONDS)
            raise answers.rejected(self.target, found, page, str(found["ErrorURL"]))
        raise answers.refusal(str(found.get("Message", status)), self.target, filtered)

    def second_phase(self, load: str, operation: str) -> tuple[str, str]:
        """Commit or abort a pre-committed load by its number; return Doris's status and message."""
        path = f"/api/{self._database}/_stream_load_2pc"
        headers = {"txn_id": load, "txn_operation": operation}
        found = self._object(self.http.ask("PUT", path, headers, SHORT_SECONDS))
        return str(found.get("status", "")), str(found.get("msg", ""))

    def _object(self, answer: HttpAnswer) -> dict[str, Any]:
        found = answer.json
        if found is None or answer.status >= 400:
            raise answers.unreadable(self.target, answer.status)
        return found
