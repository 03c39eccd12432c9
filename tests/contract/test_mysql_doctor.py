"""`doctor` with a MySQL source: each fault once, TLS if requested, the owner of the port, and the expiry of binlogs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.domain.spec import BinlogOptions, TableAsked
from slotkeeper.core.services.doctor import check_source
from slotkeeper.core.sources import registry
from slotkeeper.demo.warehouse import Warehouse
from tests.support.maria import Maria, endpoint
from tests.support.pairs import MakeMysqlPair


@pytest.fixture
def loaded(make_mysql_pair: MakeMysqlPair, tmp_path: Path) -> Loaded:
    return load(make_mysql_pair().config(tmp_path), {})


def found(loaded: Loaded, **changed: object) -> list[Finding]:
    """The findings of doctor for the only source, with these changes of its endpoint."""
    (entry,) = loaded.sources.values()
    return check_source(loaded, replace(entry, endpoint=replace(entry.endpoint, **changed)))  # type: ignore[arg-type]


def test_each_objection_is_reported_once(loaded: Loaded, maria: Maria) -> None:
    assert all(one.level is not Level.FAIL for one in found(loaded))
    maria.run("SET GLOBAL binlog_format = 'MIXED'")
    try:
        findings = found(loaded)
    finally:
        maria.run("SET GLOBAL binlog_format = 'ROW'")
    assert len(findings) == len(set(findings))
    assert [one.text for one in findings if "binlog_format" in one.text and one.level is Level.FAIL] == [
        "binlog_format is MIXED, not ROW; fix: SET GLOBAL binlog_format = 'ROW'"
    ]


def test_a_login_that_is_refused_without_tls_names_require_ssl(loaded: Loaded, maria: Maria) -> None:
    maria.run("CREATE OR REPLACE USER tls_only@'%' REQUIRE SSL")
    try:
        (one,) = found(loaded, user="tls_only")
    finally:
        maria.run("DROP USER tls_only@'%'")
    assert one.level is Level.FAIL and "if the account has REQUIRE SSL" in one.text


def test_a_port_that_is_a_postgresqls_is_called_so_and_the_other_way_round(
    loaded: Loaded, maria: Maria, warehouse: Warehouse
) -> None:
    (one,) = found(loaded, port=warehouse.server.port, connect_timeout_ms=2_000)
    assert "answers with PostgreSQL's protocol, not MySQL's; correct host and port" in one.text
    (entry,) = loaded.sources.values()
    at = replace(warehouse.endpoint(), port=maria.server.port)
    (other,) = check_source(loaded, replace(entry, dialect="dws", endpoint=at))
    assert "answers with MySQL's protocol, not PostgreSQL's; correct host and port" in other.text


def test_the_binlog_that_a_position_needs_is_reported_with_when_it_can_be_purged(maria: Maria) -> None:
    before = maria.rows("SELECT @@GLOBAL.binlog_expire_logs_seconds")[0][0]
    maria.run("SET GLOBAL binlog_expire_logs_seconds = 7200")
    try:
        position = maria.position()
        with closing(registry.open("mysql").connect(login(endpoint(maria.server), "slotkeeper/test"))) as session:
            purge = session.table(TableAsked("shop.t", "", BinlogOptions())).inspector.purge
            assert purge is not None
            written = purge(position)
            maria.run("FLUSH BINARY LOGS")
            closed = purge(position)
            gone = purge(replace(position, file="mysql-bin.000000"))
    finally:
        maria.run(f"SET GLOBAL binlog_expire_logs_seconds = {before}")
    assert (written.needed, written.written, written.from_at) == (position.file, True, None)
    assert (closed.seconds, closed.setting) == (7200, "binlog_expire_logs_seconds")
    assert closed.left is not None and 7000 < closed.left <= 7200 and closed.gtids == position.gtids_text
    assert not gone.there and gone.from_at is None
