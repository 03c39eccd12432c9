"""Names, sizes and states of a real Doris: the requests of the sink, and its reaction to each limit."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.errors import Busy, Refused, RowRefused
from slotkeeper.core.ports.kinds import SinkAsked
from slotkeeper.core.ports.sink import Batch, Outcome
from slotkeeper.core.sinks.doris import sink as loads
from slotkeeper.core.sinks.doris.kind import DorisConnection
from slotkeeper.core.sinks.doris.sink import DorisSink
from slotkeeper.demo.doris import tables
from slotkeeper.demo.doris.faults import Call, Fault
from slotkeeper.demo.doris.header import NotParsed, columns_of
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.doris.transactions import State
from tests.contract.test_doris_sink import BATCH, IDENTITY, KEY, job_of, opened
from tests.support.pairs import doris_endpoint
from tests.support.waiting import until

STRING = tables.STRING_LIMIT
ODD = ["order", "key", "current_date", "a b", "a,b", "größe", "列", "7", "1e5", "x`y", '"', "%s", "mv", "😀", "a=b"]


@pytest.fixture
def connection(doris: DorisStandin) -> Iterator[DorisConnection]:
    session = DorisConnection(opened(doris))
    yield session
    session.close()


def named(doris: DorisStandin, connection: DorisConnection, names: list[str], kind: str = "STRING") -> DorisSink:
    """Return a sink into a table with these columns after its key."""
    columns = (tables.Column("id", "BIGINT", False), *(tables.Column(one, kind) for one in names))
    doris.tables.create(tables.Table("mart", "odd", columns, ("id",)))
    identity = TableIdentity(1, (Column("id", "bigint", True), *(Column(one, "text") for one in names)), ("id",), "s")
    return connection.batch_sink(job_of(doris, "mart.odd"), identity, "direct")


def into(sink: DorisSink, *values: str | None) -> None:
    sink.commit("a", sink.send(Batch(KEY, "x", 1, lambda: iter([("1", "0", "I", "1", *values)])), "a"))


def test_each_keyword_and_odd_name_reaches_its_own_column(doris: DorisStandin, connection: DorisConnection) -> None:
    into(named(doris, connection, ODD), *ODD)
    assert doris.tables.query("SELECT * FROM mart.odd")[1] == [(1, *ODD)]


def test_names_drawn_from_all_characters_reach_their_columns(
    doris: DorisStandin, connection: DorisConnection, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)

    def letter() -> str:
        found = chr(chance.randrange(1, chance.choice([0x80, 0x100, 0x800, 0xD800, 0x10000, 0x20000])))
        return "_" if found in "\r\n" or "\ud800" <= found <= "\udfff" else found

    names = [f"{at}{''.join(letter() for _ in range(chance.randint(1, 20)))}" for at in range(60)]
    into(named(doris, connection, names), *names)
    assert doris.tables.query("SELECT * FROM mart.odd")[1] == [(1, *names)]


@pytest.mark.parametrize("name", ["a\nb", "a\rb"])
def test_a_name_that_no_header_carries_is_refused_by_name(
    doris: DorisStandin, connection: DorisConnection, name: str
) -> None:
    with pytest.raises(Refused, match="has a line break or a NUL in its name"):
        named(doris, connection, [name])


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("id,order", "order is a keyword, maybe `order`"),
        ("id,KEY", "KEY is a keyword"),
        ("id,a b", "mismatched input 'b'"),
        ("id,größe,a-b", "mismatched input '-b'"),
        ("id,a.b", "mismatched input '.b'"),
        ("id,current_date", "current_date is unsupported"),
        ("id,1e5", "1e5 is unsupported"),
        ("id,`a", "mismatched input '`a'"),
        ("id,", "mismatched input '<EOF>'"),
        ("id,,v", "mismatched input ',v'"),
    ],
)
def test_the_stand_in_parses_the_header_as_the_fe_does(header: str, says: str) -> None:
    with pytest.raises(NotParsed) as told:
        columns_of(header)
    assert says in str(told.value)
    assert columns_of("id, größe,`order`,`a``b`,date,1a") == ["id", "größe", "order", "a`b", "date", "1a"]


def test_a_made_target_with_a_name_that_no_doris_takes_is_refused(
    doris: DorisStandin, connection: DorisConnection
) -> None:
    identity = TableIdentity(1, (Column("id", "bigint", True), Column("a`b", "text")), ("id",), "s")
    job = job_of(doris, "mart.made")
    target = connection.target(replace(job, channels=(replace(job.channel, create_target=True),)))
    with pytest.raises(Refused, match="Incorrect column name 'a`b'") as told:
        target.ready(identity, makes=True)
    assert "`columns` of the channel" in told.value.hint


def test_a_string_of_the_limit_is_loaded_and_one_byte_more_is_named_with_its_column_size_and_limit(
    doris: DorisStandin, connection: DorisConnection
) -> None:
    sink = named(doris, connection, ["doc"])
    into(sink, "é" * (1_048_576 // 2))
    with pytest.raises(RowRefused) as told:
        sink.send(Batch(KEY, "y", 1, lambda: iter([("1", "1", "U", "1", "geheim\nlang" + "x" * 1_048_566)])), "b")
    assert "rejects 1 of 1 rows: column_name[doc], the length of input string is too long" in told.value.message
    assert "limit length: 1048576; actual length: 1048577" in told.value.message
    assert "geheim" not in told.value.message and "lang" not in told.value.message
    assert told.value.code == "22001"
    assert STRING in told.value.hint and "on_bad_row" in told.value.hint
    assert doris.tables.query("SELECT length(doc) FROM mart.odd")[1] == [(524_288,)], "nothing is cut"


def test_a_varchar_too_long_is_named_with_its_size_and_its_own_length(
    doris: DorisStandin, connection: DorisConnection
) -> None:
    sink = named(doris, connection, ["a/b"], "VARCHAR(4)")
    with pytest.raises(RowRefused) as told:
        into(sink, "ééé")
    assert "column_name[a/b], the length of input is too long than schema" in told.value.message
    assert "schema length: 4; actual length: 6" in told.value.message


def findings(doris: DorisStandin, connection: DorisConnection, kind: str) -> list[str]:
    identity = TableIdentity(1, (Column("id", "bigint", True), Column("v", kind)), ("id",), "s")
    asked = SinkAsked("dor", doris_endpoint(doris), "public", (job_of(doris, "mart.odd"),), lambda job: (identity, ""))
    found = connection.findings(asked, lambda: datetime.now(timezone.utc))
    return [f"{one.level.value} {one.text}" for one in found]


def test_doctor_names_the_longest_value_of_each_string_from_the_backends_own_setting(
    doris: DorisStandin, connection: DorisConnection
) -> None:
    named(doris, connection, ["v"])
    rejected = f"longer values are rejected, never truncated ({STRING})"
    assert f"ok v: a value of at most 1,048,576 bytes; {rejected}" in findings(doris, connection, "text")
    doris.tables.be_conf[STRING] = "4194304"
    warned = f"warn v: a value of at most 2,097,151 bytes, stored as hex digits; {rejected}"
    assert warned in findings(doris, connection, "bytea")
    doris.tables.tells_be_conf = False
    untold = f"unknown cannot read {STRING} (it needs ADMIN_PRIV): its default is 1,048,576"
    assert untold in findings(doris, connection, "text")


def test_doctor_names_the_port_that_is_assumed_where_the_login_may_not_see_the_backends(
    doris: DorisStandin, connection: DorisConnection
) -> None:
    named(doris, connection, ["v"])
    assert not [one for one in findings(doris, connection, "text") if "SHOW BACKENDS" in one]
    doris.tables.tells_be_conf = False
    assumed = "unknown SHOW BACKENDS is denied (it needs ADMIN_PRIV or NODE_PRIV): port 8040 is assumed for each BE"
    (found,) = [one for one in findings(doris, connection, "text") if "SHOW BACKENDS" in one]
    assert found == f'{assumed}; for another port add `backends = ["host:port"]` to [sinks.dor]'


def test_doctor_warns_of_labels_that_are_dropped_after_too_short_a_time_or_too_few_loads(
    doris: DorisStandin, connection: DorisConnection
) -> None:
    named(doris, connection, ["v"])
    doris.settings["label_keep_max_second"] = "1"
    assert "ok label_num_threshold = 2000" in findings(doris, connection, "text")
    doris.settings["streaming_label_keep_max_second"] = "3600"
    doris.settings["label_num_threshold"] = "50"
    found = findings(doris, connection, "text")
    again = "the job may send a load again (counted as repeats); set it to at least"
    assert f"warn streaming_label_keep_max_second = 3600 s: after a longer outage {again} 43200" in found
    assert f"warn label_num_threshold = 50: after more loads than that in its database {again} 2000" in (found)
    doris.settings["label_num_threshold"] = "-1"
    assert "ok label_num_threshold = -1" in findings(doris, connection, "text")


@pytest.fixture
def sink(doris: DorisStandin, connection: DorisConnection) -> DorisSink:
    return connection.batch_sink(job_of(doris), IDENTITY, "direct")


def committed(doris: DorisStandin) -> list[str]:
    return [one.label for one in doris.transactions.all() if one.state is State.COMMITTED]


def publishing_once_committed(doris: DorisStandin) -> threading.Thread:
    """Publish as soon as a load waits for it, like a slow BE."""

    def publish() -> None:
        until(lambda: bool(committed(doris)), 30, "a load to be committed")
        doris.transactions.backend_returns()

    thread = threading.Thread(target=publish)
    thread.start()
    return thread


def test_a_commit_and_a_chunk_end_once_their_rows_are_visible(doris: DorisStandin, sink: DorisSink) -> None:
    doris.transactions.lose_backend()
    load = sink.send(BATCH, "a")
    published = publishing_once_committed(doris)
    assert sink.commit("a", load) is Outcome.COMMITTED
    assert len(doris.tables.query("SELECT * FROM mart.t")[1]) == 2
    published.join()
    doris.faults.plan(Call.LOAD, Fault.PUBLISH_TIMEOUT)
    published = publishing_once_committed(doris)
    sink.write_chunk(Batch(KEY, "chunk 1", 1, lambda: iter([("7", "7")])))
    assert doris.tables.query("SELECT * FROM mart.t WHERE id = 7")[1] == [(7, 7)]
    published.join()


def test_what_is_committed_and_stays_invisible_is_named_and_is_not_sent_again(
    doris: DorisStandin, sink: DorisSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "VISIBLE_SECONDS", 0.1)
    doris.transactions.lose_backend()
    load = sink.send(BATCH, "a")
    for _ in range(2):
        with pytest.raises(Busy, match="load a is committed but not visible yet"):
            sink.commit("a", load)
    with pytest.raises(Busy, match="load a is committed but not visible yet"):
        sink.send(BATCH, "a")
    assert committed(doris) == ["a"]
    doris.transactions.backend_returns()
    assert (sink.commit("a", load), sink.send(BATCH, "a")) == (Outcome.COMMITTED, "")
    assert doris.backend.loads == 1


def test_a_commit_counts_where_its_state_cannot_be_asked(doris: DorisStandin, sink: DorisSink) -> None:
    doris.transactions.lose_backend()
    load = sink.send(BATCH, "a")
    doris.faults.plan(Call.STATE, Fault.LOST_BEFORE)
    assert sink.commit("a", load) is Outcome.COMMITTED


def test_a_lost_backend_aborts_what_runs_and_keeps_what_is_pre_committed(doris: DorisStandin, sink: DorisSink) -> None:
    load = sink.send(BATCH, "a")
    doris.transactions.begin("mart", "b", 600)
    doris.transactions.lose_backend()
    assert (sink.state("a"), sink.state("b")) == ("PRECOMMITTED", "ABORTED")
    doris.faults.plan(Call.TWO_PHASE, Fault.NO_BACKEND)
    with pytest.raises(Busy, match="No backend load available"):
        sink.commit("a", load)
    doris.transactions.backend_returns()
    assert sink.commit("a", load) is Outcome.COMMITTED
