"""Loads over HTTP: which servers get the password, the effect of a slow or silent server, and of each answer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.errors import AccessRefused, Busy, Refused, RowRefused, Unreachable
from slotkeeper.core.ports.kinds import SinkAsked
from slotkeeper.core.ports.sink import Batch, Outcome
from slotkeeper.core.services.doctor import check_sink
from slotkeeper.core.sinks.doris import sink as loads
from slotkeeper.core.sinks.doris.http import DorisHttp
from slotkeeper.core.sinks.doris.kind import DorisConnection
from slotkeeper.core.sinks.doris.sink import DorisSink
from slotkeeper.demo.doris.faults import Call, Fault
from slotkeeper.demo.doris.server import DorisStandin
from tests.support.pairs import PASSWORD, TABLE, TARGET, VARIABLE, doris_endpoint
from tests.unit.config.samples import VALID

KEY = LaneKey("dws1", TABLE, "slot", "dn_1")
IDENTITY = TableIdentity(1, (Column("id", "bigint", True), Column("v", "bigint")), ("id",), "s")
BATCH = Batch(KEY, "beyond 1 up to 2", 2, lambda: iter([("1", "0", "I", "1", "10"), ("1", "1", "I", "2", None)]))


def job_of(doris: DorisStandin, table: str = TARGET) -> JobSpec:
    where = doris_endpoint(doris)
    return JobSpec("job", where, where, "slot", (ChannelSpec(TABLE, table),), sink_kind="doris")


def opened(doris: DorisStandin) -> Login:
    return login(doris_endpoint(doris), "test")


@pytest.fixture
def sink(doris: DorisStandin) -> Iterator[DorisSink]:
    session = DorisConnection(opened(doris))
    yield session.batch_sink(job_of(doris), IDENTITY, "direct")
    session.close()


def test_labels_are_of_the_range_and_of_one_plan(sink: DorisSink) -> None:
    one, other = sink.label(BATCH), sink.label(BATCH)
    assert one != other
    assert one.rpartition("_")[0] == other.rpartition("_")[0]
    assert len(one) <= 128 and one.replace("_", "").isalnum()
    assert sink.label(replace(BATCH, label="beyond 1 up to 3")).rpartition("_")[0] != one.rpartition("_")[0]


def test_a_load_is_unseen_until_it_is_committed_and_a_commit_may_be_repeated(
    doris: DorisStandin, sink: DorisSink
) -> None:
    load = sink.send(BATCH, "a")
    assert doris.tables.query("SELECT * FROM mart.t")[1] == []
    assert [sink.commit("a", load) for _ in range(2)] == [Outcome.COMMITTED] * 2
    assert doris.tables.query("SELECT * FROM mart.t ORDER BY id")[1] == [(1, 10), (2, None)]
    assert sink.send(BATCH, "a") == ""


def test_an_uncommitted_load_under_the_label_is_aborted(doris: DorisStandin, sink: DorisSink) -> None:
    doris.faults.plan(Call.LOAD, Fault.LOST_AFTER)
    with pytest.raises(Unreachable):
        sink.send(BATCH, "a")
    (left,) = doris.transactions.running()
    load = sink.send(BATCH, "a")
    assert int(load) != left.id
    assert [one.id for one in doris.transactions.running()] == [int(load)]


def test_a_load_that_still_runs_is_waited_for_by_a_later_task(doris: DorisStandin, sink: DorisSink) -> None:
    doris.transactions.begin("mart", "a", 600)
    with pytest.raises(Busy, match="waiting for another load of the same range"):
        sink.send(BATCH, "a")


def test_outcomes_of_loads_that_are_not_there_to_be_committed(doris: DorisStandin, sink: DorisSink) -> None:
    load = sink.send(BATCH, "a")
    sink.abort(load)
    assert sink.commit("a", load) is Outcome.ABORTED
    doris.transactions.forget()
    assert sink.commit("a", load) is Outcome.UNKNOWN
    again = sink.send(BATCH, "a")
    assert sink.commit("a", again) is Outcome.COMMITTED
    assert sink.commit("a", load) is Outcome.COMMITTED, "a load with its label is committed"


def test_a_load_of_fewer_rows_is_aborted(doris: DorisStandin, sink: DorisSink) -> None:
    doris.faults.plan(Call.LOAD, Fault.CUT)
    with pytest.raises(Busy, match="the load has 1 of 2 rows"):
        sink.send(BATCH, "a")
    assert doris.transactions.running() == []


def test_rejected_rows_are_told_without_their_values(sink: DorisSink) -> None:
    bad = Batch(KEY, "x", 1, lambda: iter([("1", "0", "I", "1", "geheim-wert")]))
    with pytest.raises(RowRefused, match=r"rejects 1 of 1 rows: column_name\[v\], the value cannot be cast") as told:
        sink.send(bad, "a")
    assert "geheim-wert" not in told.value.message


def test_trials_count_rows_that_are_refused_and_leave_nothing(doris: DorisStandin, sink: DorisSink) -> None:
    rows = [("1", "0", "I", "1", "10"), ("1", "1", "I", "2", "x"), ("1", "2", "I", "3", "y")]
    for some, count in ((rows[:1], 0), (rows, 2), (rows[1:], 2)):
        for older in (True, False):
            doris.backend.fails_without_rows = older
            assert sink.trial(some.__iter__, len(some), False) == count
    assert sink.refusal(rows[0], False) is None
    why = sink.refusal(rows[1], False)
    assert why is not None
    assert (why.column, why.sqlstate) == ("v", "22P02")
    assert doris.transactions.running() == []
    assert doris.tables.query("SELECT * FROM mart.t")[1] == []


def test_what_a_withdrawn_plan_left_is_aborted_by_its_label(
    doris: DorisStandin, sink: DorisSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    doris.faults.plan(Call.LOAD, Fault.LOST_AFTER)
    with pytest.raises(Unreachable):
        sink.send(BATCH, "a")
    assert len(doris.transactions.running()) == 1
    asked, limits = DorisHttp.ask, []

    def spied(*given: Any, **more: Any) -> Any:
        limits.append(given[4])
        return asked(*given, **more)

    monkeypatch.setattr(DorisHttp, "ask", spied)
    sink.clear("a")
    sink.clear("no such label")
    assert doris.transactions.running() == []
    assert max(limits) == loads.TRIAL_SECONDS + loads.GRACE_SECONDS, "a start waits for an empty load only so long"


@pytest.mark.parametrize("chunk", [False, True])
def test_loads_may_be_packed(doris: DorisStandin, chunk: bool) -> None:
    packed = replace(opened(doris), endpoint=replace(doris_endpoint(doris), compression="gzip"))
    session = DorisConnection(packed)
    sink = session.batch_sink(job_of(doris), IDENTITY, "direct")
    if chunk:
        sink.write_chunk(Batch(KEY, "chunk 1", 1, lambda: iter([("7", "7")])))
    else:
        sink.commit("a", sink.send(BATCH, "a"))
    assert len(doris.tables.query("SELECT * FROM mart.t")[1]) == (1 if chunk else 2)
    doris.backend.packs_json = False
    with pytest.raises(Refused, match="compress data of JSON format is not supported") as told:
        sink.send(BATCH, "b")
    assert 'compression = "none"' in told.value.hint
    session.close()


def test_an_fe_that_never_answers_is_cut_off(
    doris: DorisStandin, sink: DorisSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    doris.faults.plan(Call.LOAD, Fault.SLOW_FRONTEND)
    with monkeypatch.context() as shortly:
        shortly.setattr(loads, "LOAD_SECONDS", 0)
        shortly.setattr(loads, "GRACE_SECONDS", 0.5)
        with pytest.raises(Unreachable, match=r"within 0.5 s"):
            sink.send(BATCH, "a")
    assert sink.commit("a", sink.send(BATCH, "a")) is Outcome.COMMITTED


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.TRICKLE])
def test_a_server_that_does_not_come_to_an_end_is_cut_off(
    doris: DorisStandin, sink: DorisSink, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = sink.send(BATCH, "a")
    monkeypatch.setattr(loads, "SHORT_SECONDS", 0.5)
    doris.faults.plan(Call.TWO_PHASE, fault)
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"within 0.5 s") as late:
        sink.commit("a", load)
    assert late.value.timed_out
    assert time.monotonic() - began < 10
    assert sink.commit("a", load) is Outcome.COMMITTED


def test_a_session_is_severed_from_another_thread(doris: DorisStandin) -> None:
    session = DorisConnection(opened(doris))
    sink = session.batch_sink(job_of(doris), IDENTITY, "direct")
    doris.faults.plan(Call.LOAD, Fault.HANG)
    threading.Timer(0.3, session.sever).start()
    with pytest.raises(Unreachable):
        sink.send(BATCH, "a")


def test_the_password_goes_to_named_hosts_only(doris: DorisStandin, sink: DorisSink) -> None:
    doris.faults.plan(Call.LOAD, Fault.ELSEWHERE)
    with pytest.raises(
        Refused, match=r"redirects loads to the BE doris-be\.invalid, which the configuration does not name"
    ):
        sink.send(BATCH, "a")


def test_a_dead_backend_and_none_at_all_pass_by_themselves(doris: DorisStandin, sink: DorisSink) -> None:
    doris.faults.plan(Call.LOAD, Fault.DEAD_BACKEND, Fault.NO_BACKEND)
    with pytest.raises(Unreachable) as dead:
        sink.send(BATCH, "a")
    with pytest.raises(Busy, match="No backend load available"):
        sink.send(BATCH, "a")
    assert PASSWORD not in str(dead.value)


def test_a_wrong_password_is_not_retried(doris: DorisStandin) -> None:
    session = DorisConnection(opened(doris))
    sink = session.batch_sink(job_of(doris), IDENTITY, "direct")
    sink.http.login = replace(sink.http.login, password="falsch")
    with pytest.raises(AccessRefused) as told:
        sink.send(BATCH, "a")
    assert "falsch" not in str(told.value)
    session.close()
    with pytest.raises(AccessRefused):
        DorisConnection(replace(opened(doris), password="falsch")).target(job_of(doris)).admit(IDENTITY)


def test_a_dropped_table_and_a_dropped_database_are_named(doris: DorisStandin, sink: DorisSink) -> None:
    doris.tables.drop("mart", "t")
    with pytest.raises(Refused, match="unknown table") as table:
        sink.send(BATCH, "a")
    assert "reset the slot" in table.value.hint
    doris.tables.drop_database("mart")
    with pytest.raises(Refused, match="unknown database"):
        sink.send(BATCH, "a")


def findings(doris: DorisStandin) -> list[str]:
    session = DorisConnection(opened(doris))
    asked = SinkAsked("dor", doris_endpoint(doris), "public", (job_of(doris),), lambda job: (IDENTITY, ""))
    found = [f"{one.level.value} {one.text}" for one in session.findings(asked, lambda: datetime.now(timezone.utc))]
    session.close()
    return found


def test_doctor_tells_of_the_server_its_labels_and_the_target(doris: DorisStandin) -> None:
    found = findings(doris)
    assert any("not Apache Doris" in one for one in found)
    assert "ok streaming_label_keep_max_second = 43200 s" in found
    assert "ok is a unique-key table with a delete sign, and accepts the source's columns" in found


def test_doctor_says_what_it_is_not_told_and_warns_of_floats(doris: DorisStandin) -> None:
    del doris.settings["streaming_label_keep_max_second"]
    doris.tables.drop("mart", "t")
    doris.create(TARGET, "id BIGINT NOT NULL, v DOUBLE", ("id",))
    found = findings(doris)
    assert "unknown streaming_label_keep_max_second: unknown" in found
    assert any(one.startswith("fail mart.t.v is double, which cannot hold every bigint") for one in found)


def test_doctor_reads_a_configuration_that_names_a_doris(doris: DorisStandin, tmp_path: Path) -> None:
    where = f'host = "{doris.host}"\nport = {doris.ports.query}\nhttp_port = {doris.ports.frontend}\n'
    user = f'user = "{doris.user}"\npassword_env = "{VARIABLE}"\nsslmode = "disable"\nprogress_store = "mart"\n'
    path = tmp_path / "config.toml"
    path.write_text(f'{VALID}\n[sinks.dor]\nkind = "doris"\n{where}{user}')
    found = load(path, dict(os.environ))
    told = [one.text for one in check_sink(found, found.sinks["dor"])]
    assert "streaming_label_keep_max_second = 43200 s" in told
    assert not any(PASSWORD in one for one in told)
