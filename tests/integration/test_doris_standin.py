"""The stand-in for Doris answers as Doris's own sources do: redirect, labels, two phases, rejected rows, limits."""

from __future__ import annotations

import gc
import json
import socket
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pymysql
import pytest
import urllib3

from slotkeeper.demo.doris.faults import Call, Fault
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.doris.tables import SIGN

PASSWORD = "geheim-1"
Row = dict[str, str | None]
ROWS: list[Row] = [{"id": "1", "v": "é\t\n"}, {"id": "2", "v": None}]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def doris(clock: Clock) -> Iterator[DorisStandin]:
    with DorisStandin(password=PASSWORD, clock=clock) as made:
        made.create("mart.t", "id BIGINT NOT NULL, v VARCHAR(10), d DECIMAL(10,2)", ("id",))
        yield made


def put(doris: DorisStandin, path: str, body: bytes | None = None, frontend: bool = False, /, **headers: str) -> Any:
    port = doris.ports.frontend if frontend else doris.ports.backend
    given = {**urllib3.make_headers(basic_auth=f"{doris.user}:{PASSWORD}"), **headers}
    url = f"http://127.0.0.1:{port}/api/{path}"
    return urllib3.PoolManager(retries=False).request("PUT", url, body=body, headers=given, redirect=False, timeout=10)


def load(
    doris: DorisStandin, label: str, rows: list[Row], two_phase: bool = True, more: dict[str, str] | None = None
) -> Any:
    signed: list[Row] = [{SIGN: "0", **row} for row in rows]
    headers = {"label": label, "format": "json", "read_json_by_line": "true", "columns": f"id,v,{SIGN}"}
    headers["two_phase_commit"] = "true" if two_phase else "false"
    body = "".join(json.dumps(row) + "\n" for row in signed).encode()
    return put(doris, "mart/t/_stream_load", body, Expect="100-continue", **{**headers, **(more or {})}).json()


def decide(doris: DorisStandin, number: int, operation: str) -> Any:
    return put(doris, "mart/_stream_load_2pc", txn_id=str(number), txn_operation=operation).json()


def rows(doris: DorisStandin) -> Any:
    with pymysql.connect(host="127.0.0.1", port=doris.ports.query, user=doris.user, password=PASSWORD) as line:
        cursor = line.cursor()
        cursor.execute("SELECT `id`, `v` FROM `mart`.`t` ORDER BY `id`")
        return list(cursor.fetchall())


def test_the_fe_sends_a_load_on_with_the_password_in_the_url_and_refuses_one_that_does_not_wait(
    doris: DorisStandin,
) -> None:
    sent = put(doris, "mart/t/_stream_load", None, True, Expect="100-continue")
    where = f"http://{doris.user}:{PASSWORD}@127.0.0.1:{doris.ports.backend}/api/mart/t/_stream_load?"
    assert (sent.status, sent.headers["Location"]) == (307, where)
    refused = put(doris, "mart/t/_stream_load", None, True)
    assert (refused.status, refused.json()["msg"]) == (200, "There is no 100-continue header")
    assert "not Apache Doris" in sent.headers["Server"]


def test_what_is_precommitted_is_unseen_and_its_label_is_taken(doris: DorisStandin) -> None:
    first = load(doris, "a", ROWS)
    assert (first["Status"], first["NumberLoadedRows"], rows(doris)) == ("Success", 2, [])
    second = load(doris, "a", ROWS)
    assert (second["Status"], second["ExistingJobStatus"]) == ("Label Already Exists", "PRECOMMITTED")
    assert f"relate to txn [{first['TxnId']}]" in second["Message"]
    assert decide(doris, first["TxnId"], "commit")["status"] == "Success"
    assert rows(doris) == [(1, "é\t\n"), (2, None)]
    assert load(doris, "a", ROWS)["ExistingJobStatus"] == "FINISHED"
    assert "not pre-committed" in decide(doris, first["TxnId"], "commit")["msg"]
    assert "could not abort" in decide(doris, first["TxnId"], "abort")["msg"]


def test_an_aborted_label_is_free_again_and_an_old_one_is_forgotten(doris: DorisStandin, clock: Clock) -> None:
    first = load(doris, "a", ROWS)
    assert decide(doris, first["TxnId"], "abort")["status"] == "Success"
    assert "is already aborted. abort reason: User Abort" in decide(doris, first["TxnId"], "commit")["msg"]
    assert load(doris, "a", ROWS, two_phase=False)["Status"] == "Success"
    clock.now += doris.transactions.label_keep + 1
    assert "not found" in decide(doris, first["TxnId"], "commit")["msg"]
    assert load(doris, "a", ROWS)["Status"] == "Success"


def test_what_waits_too_long_is_aborted_and_too_many_are_refused(doris: DorisStandin, clock: Clock) -> None:
    doris.transactions.most = 1
    first = load(doris, "a", ROWS, more={"timeout": "60"})  # the header limits only the first phase
    refused = load(doris, "b", ROWS)
    assert (refused["Status"], "larger than limit 1" in refused["Message"]) == ("Fail", True)
    clock.now += 61
    assert doris.transactions.state("mart", "a").value == "PRECOMMITTED"
    clock.now += doris.transactions.precommit_seconds
    assert "timeout by txn manager" in decide(doris, first["TxnId"], "commit")["msg"]
    assert load(doris, "b", ROWS)["Status"] == "Success"


def test_deletes_take_the_row_away_and_the_last_row_of_a_key_counts(doris: DorisStandin) -> None:
    load(doris, "a", ROWS, two_phase=False)
    load(doris, "b", [{"id": "1", "v": "x"}, {"id": "1", "v": "y"}, {"id": "2", SIGN: "1"}], two_phase=False)
    assert rows(doris) == [(1, "y")]


def test_rejected_rows_fail_the_load_and_stand_on_a_page(doris: DorisStandin) -> None:
    answer = load(doris, "a", [*ROWS, {"id": "x"}, {"id": "4", "v": "longer than ten"}, {"v": "no key"}])
    assert (answer["Status"], answer["NumberFilteredRows"]) == ("Fail", 3)
    page = urllib3.request("GET", answer["ErrorURL"]).data.decode()
    assert page.count("Reason:") == 3 and "length of input is too long" in page
    assert load(doris, "a", ROWS)["Status"] == "Success"


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"format": "xml"}, "unknown data format, format=xml"),
        ({"merge_type": "TWIST"}, "Invalid merge type TWIST"),
        ({"merge_type": "MERGE"}, "Excepted DELETE ON clause when merge type is MERGE."),
        ({"timeout": "soon"}, "Invalid timeout format"),
        ({"columns": "id,w"}, "unknown column [w]"),
        ({"group_commit": "async_mode"}, "the stand-in does not support group_commit"),
    ],
)
def test_headers_are_refused_in_the_words_of_the_be(doris: DorisStandin, headers: dict[str, str], says: str) -> None:
    answer = load(doris, "a", ROWS, more=headers)
    assert (answer["Status"], says in answer["Message"]) == ("Fail", True)


def test_a_database_and_a_table_that_are_gone_are_named(doris: DorisStandin) -> None:
    doris.tables.drop("mart", "t")
    assert "unknown table" in load(doris, "a", ROWS)["Message"]
    doris.tables.drop_database("mart")
    assert "unknown database" in load(doris, "a", ROWS)["Message"]


def test_answers_are_lost_before_and_after_as_they_are_scripted(doris: DorisStandin) -> None:
    doris.faults.plan(Call.LOAD, Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.CUT)
    for seen in ("UNKNOWN", "PRECOMMITTED"):
        with pytest.raises(urllib3.exceptions.ProtocolError):
            load(doris, "a", ROWS)
        assert doris.transactions.state("mart", "a").value == seen
    assert load(doris, "b", ROWS)["NumberTotalRows"] == 1
    assert doris.faults.left() == 0


def test_it_tells_of_a_table_as_a_doris_does(doris: DorisStandin) -> None:
    with pymysql.connect(host="127.0.0.1", port=doris.ports.query, user=doris.user, password=PASSWORD) as line:
        cursor = line.cursor()
        cursor.execute("SELECT @@version_comment")
        assert "not Apache Doris" in str(cursor.fetchone())
        cursor.execute("SET show_hidden_columns = true")
        cursor.execute("DESC `mart`.`t`")
        assert [row[0] for row in cursor.fetchall()] == ["id", "v", "d", SIGN]
        cursor.execute("SHOW CREATE TABLE `mart`.`t`")
        assert "UNIQUE KEY(`id`)" in cursor.fetchall()[0][1]
        with pytest.raises(pymysql.MySQLError, match="Unknown table"):
            cursor.execute("DESC `mart`.`u`")


def test_its_end_leaves_no_socket_of_a_connection_that_was_just_accepted() -> None:
    gc.collect()
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(20):
            with DorisStandin(password=PASSWORD) as made, ExitStack() as lines:
                for _ in range(3):
                    lines.enter_context(socket.create_connection(("127.0.0.1", made.ports.query)))
                made.close()
            del made
            gc.collect()
    assert [str(one.message) for one in left if "unclosed" in str(one.message)] == []
