"""The privileges that `doctor` prints are sufficient, and each missing privilege is named before a start."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.drivers import pg
from slotkeeper.core.services.doctor import check_sink, check_source
from slotkeeper.core.services.looking import open_store
from slotkeeper.core.sources.dws.eligibility import NEEDED
from slotkeeper.core.state.audit import intent
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.orders import DDL_COLUMNS, KEY
from slotkeeper.demo.warehouse import READERS, Warehouse
from tests.support.least import Least, least
from tests.support.mirror import MakeMirror, Mirror, orders, written


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int) -> Mirror:
    return orders(make_mirror, warehouse, seed)


def failures(least: Least) -> list[Finding]:
    loaded = least.loaded
    found = check_source(loaded, loaded.sources["dws1"]) + check_sink(loaded, loaded.sinks["mart"])
    return [one for one in found if one.level is Level.FAIL]


def call(least: Least, capfd: pytest.CaptureFixture[str], *words: str, fine: int = 0) -> str:
    capfd.readouterr()
    code = main([*words, "--config", str(least.config)])
    said = capfd.readouterr()
    assert code == fine, (words, code, said.out[-2_000:], said.err)
    return said.out


def kept_target(mirror: Mirror) -> None:
    table = f"CREATE TABLE {mirror.job.channel.target} ({DDL_COLUMNS}, PRIMARY KEY ({', '.join(KEY)}))"
    mirror.at_sink("CREATE SCHEMA mart", table)


def follow(mirror: Mirror, seed: int) -> None:
    """Run the job: copy and changes, until nothing is unread."""
    mirror.start().wait_running()
    with written(mirror, seed, changes=60):
        pass
    mirror.wait_equal()
    mirror.stop()


def steer(least: Least, capfd: pytest.CaptureFixture[str]) -> None:
    """Run every command that queries a server: read-only ones, slot verbs, a reset and its undo, a comparison."""
    call(least, capfd, "jobs", "list", "--json")
    Store.open(least.loaded.state_dir).close()  # `status` reads tables that a first start creates
    job = least.mirror.job
    table, slot = least.mirror.table, job.slot
    consent = ("--execute", "--reason", "a test", "--confirm")
    call(least, capfd, "status", "--json")
    call(least, capfd, "locks", job.name)
    call(least, capfd, "slots", "list", "--json")
    call(least, capfd, "slots", "show", table, slot)
    call(least, capfd, "slots", "peek", table, "--json")
    call(least, capfd, "verify", job.name)
    for verb in ("create", "register", "drop"):
        words = ("slots", verb, table, "second")
        lost = re.findall(r"--rows \S+", call(least, capfd, *words))
        more = lost[0].split() if lost else ()
        call(least, capfd, *words, *consent, "second", "--confirm-table", table, *more)
    plan = json.loads(call(least, capfd, "slots", "reset", table, slot, "--to", "earliest", "--json"))
    call(least, capfd, "slots", "reset", table, slot, "--plan", plan["id"], *consent, slot)
    entries = json.loads(call(least, capfd, "slots", "history", table, slot, "--json"))["resets"]
    undo = ("slots", "undo", entries[0]["backup"])
    plan = json.loads(call(least, capfd, *undo, "--json"))
    call(least, capfd, *undo, "--plan", plan["id"], *consent, slot, "--rows", str(plan["skipped"]))


def test_a_made_target_and_every_command_need_no_more_than_is_printed(
    mirror: Mirror, seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logins = least(mirror, tmp_path)
    assert failures(logins) == []
    follow(mirror, seed)
    assert failures(logins) == []
    steer(logins, capfd)
    follow(mirror, seed + 1)
    call(logins, capfd, "verify", mirror.job.name)


@pytest.mark.parametrize("existing", ["replace", "merge", "refuse"])
def test_a_kept_target_needs_no_more_than_is_printed(
    mirror: Mirror, seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], existing: str
) -> None:
    kept_target(mirror)
    options = mirror.job.sink_options
    if existing == "replace":  # with a row that the source does not have, so that the copy uses a shadow table
        mirror.at_sink(f"INSERT INTO {mirror.job.channel.target} (cust, order_no) VALUES (0, 0)")
        options = replace(options, on_bad_row="quarantine")
    mirror.job = replace(mirror.job, on_existing=existing, sink_options=options)
    logins = least(mirror, tmp_path, (f'on_existing = "{existing}"',), create=False)
    assert failures(logins) == []
    follow(mirror, seed)
    steer(logins, capfd)
    follow(mirror, seed + 1)
    call(logins, capfd, "verify", mirror.job.name)


def test_each_right_that_lacks_is_named_by_doctor(mirror: Mirror, tmp_path: Path) -> None:
    kept_target(mirror)
    logins = least(mirror, tmp_path, ('on_existing = "replace"',), create=False)
    assert failures(logins) == []
    taken = list(logins.rights())
    assert len(taken) >= 12
    for side, right, revoke in taken:
        logins.run(side, revoke)
        found = failures(logins)
        word = right.split()[0]
        assert found, f"without {right} nothing fails"
        assert all(one.place.startswith(side) for one in found), (right, found)
        assert any(word.casefold() in one.text.casefold() for one in found), (right, found)
        logins.run(side, revoke.replace("REVOKE", "GRANT", 1).replace(" FROM ", " TO "))
    assert failures(logins) == []


ALTERS = (
    "UPDATE slotkeeper_audit SET what = 'another'",
    "DELETE FROM slotkeeper_audit",
    "TRUNCATE slotkeeper_audit",
    "ALTER TABLE slotkeeper_audit DROP COLUMN head",
    "CREATE TRIGGER lie BEFORE INSERT ON slotkeeper_audit EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "DROP TABLE slotkeeper_audit",
)


def altered(least: Least, *statements: str) -> list[str]:
    """Return which of these statements the sink lets the job's login run; each is rolled back."""
    found = []
    endpoint = least.mirror.job.sink
    with closing(pg.connect(endpoint, resolve(endpoint.password), "attacker")) as connection:
        for statement in statements:
            with connection.cursor() as cursor:
                cursor.execute("SET search_path = public")
                try:
                    cursor.execute(statement)
                except pg.DriverError as error:
                    assert error.pgcode == "42501", error
                else:
                    found.append(statement)
                connection.rollback()
    return found


def audit_finding(least: Least) -> Finding:
    found = check_sink(least.loaded, least.loaded.sinks["mart"])
    return next(one for one in found if "slotkeeper_audit: " in one.text)


def test_a_copied_audit_line_cannot_be_changed_with_the_password_of_the_job(mirror: Mirror, tmp_path: Path) -> None:
    logins = least(mirror, tmp_path)
    head = "a" * 64
    with closing(open_store(mirror.job)) as session:
        session.audit().append(intent("slots reset", "a slot", "a test"), "host:/state", head)
        assert [one.head for one in session.audit().heads(["host:/state"])] == [head]
    assert altered(logins, *ALTERS) == []
    assert audit_finding(logins).level is Level.OK


def test_doctor_warns_of_a_login_that_can_change_copied_lines_and_its_statement_ends_that(
    mirror: Mirror, tmp_path: Path
) -> None:
    logins = least(mirror, tmp_path)
    user = mirror.job.sink.user
    logins.run("sink", f"ALTER TABLE slotkeeper_audit OWNER TO {user}")
    assert altered(logins, *ALTERS) == list(ALTERS), "a job that created the table can change each line"
    found = audit_finding(logins)
    assert (found.level, f"{user} owns the table" in found.text) == (Level.WARN, True)
    for right in ("", "UPDATE (what)", "DELETE", "TRUNCATE", "TRIGGER"):
        if right:
            logins.run("sink", f"GRANT {right} ON slotkeeper_audit TO {user}")
            found = audit_finding(logins)
            assert (found.level, f"has {right.split()[0]}" in found.text) == (Level.WARN, True), right
        for statement in found.text.split("`")[1].replace("your_administrator", "CURRENT_USER").split("; "):
            logins.run("sink", statement)
        assert audit_finding(logins).level is Level.OK, right
    assert altered(logins, *ALTERS) == []


def test_what_is_refused_only_while_a_range_is_read_shows_before_a_start(mirror: Mirror, tmp_path: Path) -> None:
    """The login can call the function and read the table, but not the data that the function reads for it."""
    logins = least(mirror, tmp_path)
    logins.run("source", f"REVOKE {READERS} FROM {mirror.job.source.user}")
    (found,) = failures(logins)
    assert found.place == f"source dws1 {mirror.table}"
    assert found.text.startswith("cannot read an empty range of the binlog: ")
    assert "permission denied" in found.text


@pytest.mark.parametrize("name", NEEDED)
def test_a_binlog_function_that_may_not_be_called_is_named(mirror: Mirror, tmp_path: Path, name: str) -> None:
    logins = least(mirror, tmp_path)
    arguments = mirror.query(
        mirror.warehouse.connect, f"SELECT oid::regprocedure::text FROM pg_proc WHERE proname = '{name}'"
    )
    for (function,) in arguments:
        logins.run("source", f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
    assert f"cannot execute {name}" in " ".join(one.text for one in failures(logins))


def test_doctor_makes_no_slot_while_it_reads_a_range(mirror: Mirror, tmp_path: Path) -> None:
    logins = least(mirror, tmp_path)
    found = check_source(logins.loaded, logins.loaded.sources["dws1"])
    assert any(one.text.startswith("can read an empty range of the binlog on") for one in found)
    assert mirror.query(mirror.warehouse.connect, "SELECT * FROM dws.slot") == []
