"""Servers whose settings differ from those that a source needs: encrypted, filtered and missing binlogs."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.probing import Left
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import Refused, Unreachable
from slotkeeper.core.ports.kinds import ProbeAsked
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, MysqlPosition
from slotkeeper.core.sources.mysql.probe import probe
from slotkeeper.core.sources.mysql.transactions import End
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.placement import give, owner_of
from tests.support import maria as support
from tests.support.maria import Maria

PLUGIN = "file_key_management"
MARK = "a text that the file must not contain"


@pytest.fixture
def server() -> Iterator[MariaServer]:
    made = support.begin()
    yield made
    support.end(made)


def encrypt(server: MariaServer) -> None:
    """Restart it with encrypted binlogs; skips if the host's MariaDB has no plugin for keys in a file.

    Source: MariaDB, "Managing Binary Log Encryption" (the key with id 1) and "File Key Management Encryption Plugin".
    """
    keys = server.place / "keys"
    keys.write_text(f"1;{secrets.token_hex(32)}\n", "ascii")
    keys.chmod(0o600)
    give(keys, owner_of(server.place))
    session = support.log_in(server)
    (folder,) = session.rows("SELECT @@plugin_dir")[0]
    session.close()
    if not (Path(str(folder)) / f"{PLUGIN}.so").exists():
        pytest.skip(f"no plugin {PLUGIN} in {folder}")
    server.restart({"plugin_load": PLUGIN, f"{PLUGIN}_filename": str(keys), "encrypt_binlog": "ON"})


def test_an_encrypted_binlog_is_read_from_every_position_and_across_files(server: MariaServer) -> None:
    """The server decrypts what it sends; an encrypted file has one more event, which the offsets must count."""
    encrypt(server)
    session = support.log_in(server)
    session.rows("CREATE DATABASE test_encrypted")
    session.rows("USE test_encrypted")
    made = Maria(server, session, "test_encrypted", "", 0)
    made.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(80))")
    made.run("FLUSH BINARY LOGS")
    made.mark()
    for number in range(5):
        made.run(f"INSERT INTO t VALUES ({number}, '{MARK}')")
    made.run("FLUSH BINARY LOGS", f"INSERT INTO t VALUES (5, '{MARK}')")
    assert made.rows("SELECT @@encrypt_binlog") == [(1,)]
    files = [server.data_dir / str(name) for name, _ in made.rows("SHOW BINARY LOGS")]
    assert len(files) > 2 and not any(MARK.encode() in file.read_bytes() for file in files)

    whole = MysqlPosition(made.file, FIRST_OFFSET, made.position().gtids)
    ends = [one.position for one in made.stream("t", start=whole).items(blocking=False) if isinstance(one, End)]
    assert (ends[-1].file, ends[-1].offset) == made.here()
    for low, high in itertools.combinations([whole, *ends], 2):
        found = made.decoded(made.stream("t", start=low).read(high))
        rows = [row for change in found for row in change.after]
        first = 0 if low is whole else ends.index(low) + 1
        assert rows == [(number, MARK) for number in range(first, ends.index(high) + 1)], (low, high)
    with support.lane(server, "test_encrypted.t") as lane:
        made.run("UPDATE t SET v = 'new' WHERE id = 1", "DELETE FROM t WHERE id = 2")
        assert lane.catch_up().rows == lane.copied()
    session.close()


def test_a_server_without_a_binlog_is_refused_with_the_setting(server: MariaServer) -> None:
    server.restart({"log_bin": ""})
    session = support.log_in(server)
    session.rows("CREATE DATABASE test_none")
    session.rows("CREATE TABLE test_none.t (id INT PRIMARY KEY)")
    session.close()
    with (
        pytest.raises(Refused, match=r"the server writes no binlog \(log_bin is off\)") as refused,
        support.lane(server, "test_none.t"),
    ):
        pass
    assert refused.value.hint == "set log_bin and restart the server"


def test_a_filter_that_comes_with_a_restart_stops_a_lane_unless_the_server_ignores_it(server: MariaServer) -> None:
    """Rows that are not in the binlog would be missing in the target, of which the job says that it is equal.

    MySQL, "Evaluation of Database-Level Replication and Binary Logging Options": binlog_do_db has precedence.
    """
    session = support.log_in(server)
    session.rows("CREATE DATABASE test_filtered")
    session.rows("CREATE TABLE test_filtered.t (id INT PRIMARY KEY)")
    session.close()
    with support.lane(server, "test_filtered.t") as lane:
        server.restart({"binlog_do_db": "test_filtered", "binlog_ignore_db": "test_filtered"})
        with pytest.raises(Unreachable):
            lane.catch_up()
        session = support.log_in(server)
        session.rows("INSERT INTO test_filtered.t VALUES (1)")
        session.close()
        assert len(lane.catch_up().rows) == 1
        server.restart({"binlog_do_db": "another"})
        with pytest.raises(Unreachable):
            lane.catch_up()
        with pytest.raises(Refused, match="the binlog has no changes of database test_filtered"):
            lane.catch_up()


def test_a_table_whose_database_the_binlog_hides_is_refused_and_named_by_a_probe() -> None:
    server = support.begin({"binlog_ignore_db": "hidden"})
    try:
        session = support.log_in(server)
        session.rows("CREATE DATABASE hidden")
        session.rows("CREATE DATABASE shown")
        for database in ("shown", "hidden"):
            session.rows(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
        session.close()
        with support.lane(server, "shown.t"):
            pass
        with (
            pytest.raises(Refused, match="the binlog has no changes of database hidden"),
            support.lane(server, "hidden.t"),
        ):
            pass
        its = Login(support.endpoint(server), support.password_of(server), "slotkeeper/probe")
        made, left = probe(its), list[Left]()
        job = SimpleNamespace(channels=(SimpleNamespace(source_table="hidden.orders"),))
        for database in ("shown", "hidden"):
            plan, jobs = made.plan("maria", database, False), [job] if database == "hidden" else []
            asked = ProbeAsked(plan, cast("list[JobSpec]", jobs), left, lambda _: None, lambda: None)
            found = {one.question.name: one.finding for one in made.ask(asked)[0]}
            hides = found["databases_hidden"]
            assert (hides.answer, hides.right, left) == ("hidden", not jobs, [])
            assert ("hidden.orders" if jobs else "default database") in hides.because
            filtered = database == "hidden"
            assert found["commit_order"].answer == (None if filtered else "yes")
            assert not filtered or found["commit_order"].because == "the server's filters hide the scratch tables"
    finally:
        support.end(server)
