"""A source table changes its columns under a running job: it stops with instructions or continues; both end equal."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.reset import DONE
from slotkeeper.core.domain.spec import RESNAPSHOT, STOP, ChannelSpec
from slotkeeper.core.errors import Refused, SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.services.audit import DriverAudit
from slotkeeper.core.state.audit import Audit, actor
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring import worker
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.resetting import SNAPSHOT, Crash, Resetting
from tests.support.shapes import TABLE, TARGET, MemoryAudit, insert, prepared, statements_of, typed_as_printed
from tests.support.standin import run
from tests.support.waiting import until

CHANGES = {
    "add": (
        [f"ALTER TABLE {TABLE} ADD COLUMN x integer"],
        [f"ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS x integer"],
    ),
    "add not null": (
        [f"ALTER TABLE {TABLE} ADD COLUMN x integer NOT NULL DEFAULT 7"],
        [f"ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS x integer"],
    ),
    "add with a default": (
        [f"ALTER TABLE {TABLE} ADD COLUMN x varchar(9) DEFAULT 'new'"],
        [f"ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS x character varying(9)"],
    ),
    "drop": (
        [f"ALTER TABLE {TABLE} DROP COLUMN w"],
        [f"ALTER TABLE {TARGET} DROP COLUMN w"],
    ),
    "drop not null": (
        [f"ALTER TABLE {TABLE} DROP COLUMN n"],
        [f"ALTER TABLE {TARGET} DROP COLUMN n"],
    ),
    "rename": (
        [f'ALTER TABLE {TABLE} RENAME COLUMN v TO "The name"'],
        [f'ALTER TABLE {TARGET} RENAME COLUMN v TO "The name"'],
    ),
    "rename not null": (
        [f"ALTER TABLE {TABLE} RENAME COLUMN n TO number"],
        [f'ALTER TABLE {TARGET} RENAME COLUMN n TO "number"'],
    ),
    "rename the key": (
        [f"ALTER TABLE {TABLE} RENAME COLUMN id TO key"],
        [f"ALTER TABLE {TARGET} RENAME COLUMN id TO key"],
    ),
    "set type": (
        [f"ALTER TABLE {TABLE} ALTER COLUMN w TYPE bigint"],
        [f"ALTER TABLE {TARGET} ALTER COLUMN w TYPE bigint"],
    ),
    "set type not null": (
        [f"ALTER TABLE {TABLE} ALTER COLUMN n TYPE numeric(12,2)"],
        [f"ALTER TABLE {TARGET} ALTER COLUMN n TYPE numeric(12,2)"],
    ),
    "set type by a cast": (
        [f"ALTER TABLE {TABLE} ALTER COLUMN n TYPE boolean USING n > 25"],
        [f"ALTER TABLE {TARGET} ALTER COLUMN n TYPE boolean USING n::boolean"],
    ),
    "set type of a text": (
        [f"ALTER TABLE {TABLE} ALTER COLUMN v TYPE boolean USING length(v) = 2"],
        [f"ALTER TABLE {TARGET} ALTER COLUMN v TYPE boolean USING NULL"],
    ),
    "set type without a cast": (
        [f"ALTER TABLE {TABLE} ALTER COLUMN n TYPE timestamp USING timestamp '2026-01-01' + n * interval '1 day'"],
        [
            f"ALTER TABLE {TARGET} ALTER COLUMN n DROP NOT NULL",
            f"ALTER TABLE {TARGET} ALTER COLUMN n TYPE timestamp without time zone USING NULL",
        ],
    ),
    "narrower": ([f"ALTER TABLE {TABLE} ALTER COLUMN v TYPE varchar(40)"], []),
    "several": (
        [
            f"ALTER TABLE {TABLE} DROP COLUMN w",
            f"ALTER TABLE {TABLE} RENAME COLUMN v TO w",
            f"ALTER TABLE {TABLE} ALTER COLUMN n DROP NOT NULL",
            f"ALTER TABLE {TABLE} ALTER COLUMN n TYPE text",
            f"ALTER TABLE {TABLE} ADD COLUMN v text",
            f"ALTER TABLE {TABLE} ADD COLUMN x date",
        ],
        [
            f"ALTER TABLE {TARGET} ALTER COLUMN n DROP NOT NULL",
            f"ALTER TABLE {TARGET} ALTER COLUMN w TYPE text",
            f"ALTER TABLE {TARGET} ALTER COLUMN n TYPE text",
            f"ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS x date",
        ],
    ),
}
"""The change at the source, and the statements to type at the sink."""
QUICK = ["add not null", "drop", "rename", "set type by a cast"]
LATE = [one for one in CHANGES if one not in QUICK]
POINTS = [f"after_reshape_{step}" for step in ("intent", "epoch", "alter", "rows", "outcome")]


def kill() -> None:
    raise Crash("killed")


def change(mirror: Mirror, what: str) -> None:
    """Change the source, with unread rows before and after the change."""
    insert(mirror, "51, 60")
    mirror.source(*CHANGES[what][0])
    run(mirror.warehouse, f"DELETE FROM {TABLE} WHERE {'key' if 'rename the key' in what else 'id'} > 55")


def running(warehouse: Warehouse, make_mirror: MakeMirror, policy: str) -> Mirror:
    mirror = prepared(warehouse, make_mirror, policy)
    insert(mirror, "1, 50")
    mirror.start().wait_running()
    mirror.wait_equal()
    return mirror


def ended_equal(mirror: Mirror) -> None:
    """It runs, both ends are equal by name, and it follows further changes."""
    mirror.wait_running()
    run(mirror.warehouse, f"DELETE FROM {TABLE} WHERE ctid IN (SELECT ctid FROM {TABLE} LIMIT 3)")
    until_equal(mirror)
    mirror.stop()


def until_equal(mirror: Mirror) -> None:
    """Wait until both ends have the same columns by name, and the same rows."""

    def equal() -> bool:
        names = sorted(mirror.query(mirror.warehouse.connect, columns_of(TABLE)))
        if names != sorted(mirror.query(mirror.sink, columns_of(TARGET))):
            return False
        listed = ", ".join(f'"{name}"::text' for (name,) in names)
        source = set(mirror.query(mirror.warehouse.connect, f"SELECT {listed} FROM {TABLE}"))
        return source == set(mirror.query(mirror.sink, f"SELECT {listed} FROM {TARGET}"))

    mirror._until(equal, 60, "source and target to be equal")


def columns_of(table: str) -> str:
    where = f"attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
    return f"SELECT attname::text FROM pg_attribute WHERE {where}"


def stops_and_says(mirror: Mirror, what: str, folder: Path) -> None:
    change(mirror, what)
    error = mirror.wait_error()
    assert isinstance(error, Trouble), repr(error)
    assert error.name in (TroubleName.SCHEMA_CHANGED, TroubleName.SLOT_LOST), error
    assert statements_of(error.hint) == CHANGES[what][1]
    assert isinstance(again := mirror.start().wait_error(), Trouble)
    assert again.hint == error.hint, "the next start reports the same"
    typed_as_printed(mirror, error.hint, folder)
    ended_equal(mirror)


def continues(mirror: Mirror, what: str) -> None:
    change(mirror, what)
    mirror._until(lambda: len(audit_of(mirror).lines) == 2, 60, "the table to be altered")
    ended_equal(mirror)
    before, after = audit_of(mirror).lines
    assert (before.phase, after.phase, after.action_id) == (Phase.INTENT, Phase.OUTCOME, before.action_id)
    assert before.what == f"dws1 {TABLE} slot {mirror.job.slot}"
    assert [text for name, text in before.result.items() if name.startswith(TARGET)] == CHANGES[what][1]
    assert after.outcome == "done: altered; a new copy follows"


def test_old_values_that_fit_no_new_type_go(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    """The source converted the values in its own way; its copy writes the result."""
    mirror = prepared(warehouse, make_mirror, RESNAPSHOT, "id bigint NOT NULL, f double precision NOT NULL")
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 1e12), (2, 2)")
    mirror.start().wait_running()
    run(warehouse, f"ALTER TABLE {TABLE} ALTER COLUMN f TYPE numeric(5,2) USING 1")
    mirror._until(lambda: len(audit_of(mirror).lines) == 2, 60, "the table to be altered")
    ended_equal(mirror)
    told = [list(line.result.values())[:2] for line in audit_of(mirror).lines]
    plain = f"ALTER TABLE {TARGET} ALTER COLUMN f TYPE numeric(5,2)"
    assert told[0][0] == plain
    assert told[1] == [f"ALTER TABLE {TARGET} ALTER COLUMN f DROP NOT NULL", f"{plain} USING NULL"]


def test_both_lines_are_in_the_jobs_audit_and_in_its_sink(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    folder = StateFolder.open(tmp_path / "state")
    mirror.stop()
    mirror.audit = DriverAudit(folder, lambda: worker.store_session(mirror.job, "audit"))
    mirror.source(f"ALTER TABLE {TABLE} DROP COLUMN w")
    mirror.start()
    ended_equal(mirror)
    after, before = Audit(folder).read().lines
    assert (before.action, before.phase, before.actor) == ("schema change", Phase.INTENT, actor())
    assert "columns changed" in before.reason and after.outcome == "done: altered; a new copy follows"
    copied = mirror.query(mirror.sink, "SELECT phase, action_id FROM slotkeeper_audit ORDER BY written_at")
    assert copied == [("intent", before.action_id), ("outcome", before.action_id)]


def audit_of(mirror: Mirror) -> MemoryAudit:
    assert isinstance(mirror.audit, MemoryAudit)
    return mirror.audit


@pytest.mark.parametrize("what", QUICK)
def test_a_job_stops_with_the_alter_that_works_as_printed(
    what: str, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    stops_and_says(running(warehouse, make_mirror, STOP), what, tmp_path)


@pytest.mark.chaos
@pytest.mark.parametrize("what", LATE)
def test_every_change_stops_a_job_with_the_alter_that_works_as_printed(
    what: str, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    stops_and_says(running(warehouse, make_mirror, STOP), what, tmp_path)


@pytest.mark.parametrize("what", QUICK)
def test_a_job_that_may_alters_its_target_and_copies_again(
    what: str, warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """The effect of on_schema_change = "resnapshot"."""
    continues(running(warehouse, make_mirror, RESNAPSHOT), what)


@pytest.mark.chaos
@pytest.mark.parametrize("what", LATE)
def test_a_job_that_may_alters_its_target_whatever_changed(
    what: str, warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    continues(running(warehouse, make_mirror, RESNAPSHOT), what)


def test_a_reset_shows_the_columns_of_both_ends(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> None:
    mirror = running(warehouse, make_mirror, STOP)
    mirror.stop()
    mirror.source(f"ALTER TABLE {TABLE} DROP COLUMN w", f"ALTER TABLE {TABLE} ADD COLUMN x integer NOT NULL DEFAULT 1")
    notes = Resetting(mirror, tmp_path / "state").plan(SNAPSHOT).notes
    at = notes.index(f"source {TABLE}: id bigint NOT NULL, v text, n integer NOT NULL, + x integer NOT NULL")
    assert notes[at + 1 :] == (
        f"target {TARGET}: id bigint NOT NULL, v text, - w integer, n integer NOT NULL",
        "changed: column x (integer NOT NULL) was added",
        "changed: column w (integer) was dropped",
        f"run at the sink before the next start: ALTER TABLE {TARGET} DROP COLUMN w",
        f"run at the sink before the next start: ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS x integer",
    )


def test_a_copy_that_is_due_brings_its_target_in_line_too(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    """The source changes again after a reset, and after a kill once the reshape has written its rows."""
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    mirror.stop()
    resetting = Resetting(mirror, tmp_path / "state")
    mirror.source(f"ALTER TABLE {TABLE} ADD COLUMN x integer DEFAULT 1")
    assert "the next start runs: " in resetting.plan(SNAPSHOT).notes[-1]
    assert resetting.reset(SNAPSHOT).outcome == DONE
    probe = At("after_reshape_rows", kill)
    assert isinstance(mirror.start(driver_probe=probe).wait_error(), Crash)
    mirror.source(f"ALTER TABLE {TABLE} RENAME COLUMN x TO y", f"ALTER TABLE {TABLE} DROP COLUMN w")
    mirror.start()
    ended_equal(mirror)
    assert resetting.reset(SNAPSHOT).outcome == DONE
    mirror.source(f"ALTER TABLE {TABLE} DROP COLUMN n")
    mirror.start()
    ended_equal(mirror)
    told = [text for line in audit_of(mirror).lines for text in line.result.values() if text.startswith("ALTER")]
    gone = [f"ALTER TABLE {TARGET} DROP COLUMN n"]
    names = [f"ALTER TABLE {TARGET} DROP COLUMN w", f"ALTER TABLE {TARGET} RENAME COLUMN x TO y"]
    assert told == [f"ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS x integer", *names, *names, *gone, *gone]


def test_a_reset_without_the_alter_is_reported_again(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = running(warehouse, make_mirror, STOP)
    change(mirror, "drop")
    mirror.wait_error()
    mirror.source(f"ALTER TABLE {TABLE} ADD COLUMN x integer")
    assert Resetting(mirror, tmp_path / "state").reset(SNAPSHOT).outcome == DONE
    error = mirror.start().wait_error()
    assert isinstance(error, Refused), repr(error)
    assert error.hint.endswith(f"; then `slotkeeper jobs start {mirror.job.name}`")
    statements = [f"ALTER TABLE {TARGET} DROP COLUMN w", f"ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS x integer"]
    assert statements_of(error.hint) == statements
    mirror.at_sink(*statements)
    mirror.start()
    ended_equal(mirror)


@pytest.mark.chaos
def test_another_table_of_the_same_name_and_another_key_are_a_persons(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    mirror.stop()
    run(warehouse, f"DROP TABLE {TABLE}")
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble) and "created again" in error.message
    assert not audit_of(mirror).lines and "run in the sink" not in error.hint
    assert Resetting(mirror, tmp_path / "state").reset(SNAPSHOT).outcome == DONE
    mirror.at_sink(f"ALTER TABLE {TARGET} DROP COLUMN w, DROP COLUMN n")
    insert_two = f"INSERT INTO {TABLE} VALUES (1, 'a'), (2, 'b')"
    run(warehouse, insert_two)
    mirror.start().wait_running()
    mirror.stop()
    key = f"ALTER TABLE {TABLE} DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, v)"
    mirror.source(f"ALTER TABLE {TABLE} ALTER COLUMN v SET NOT NULL", key)
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble), repr(error)
    assert not audit_of(mirror).lines
    dropped = f"ALTER TABLE {TARGET} DROP CONSTRAINT t_pkey"
    assert statements_of(error.hint) == [f"TRUNCATE {TARGET}", dropped, f"ALTER TABLE {TARGET} ADD PRIMARY KEY (id, v)"]
    typed_as_printed(mirror, error.hint, tmp_path)
    ended_equal(mirror)


def test_of_several_tables_the_changed_one_alone_is_altered(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = prepared(warehouse, make_mirror, RESNAPSHOT)
    warehouse.create_table("ods.u", "id bigint NOT NULL, v text", ("id",))
    other = ChannelSpec("ods.u", "mart.u", create_target=True)
    mirror.job = replace(mirror.job, channels=(*mirror.job.channels, other))
    insert(mirror, "1, 50")
    mirror.start().wait_running()
    mirror.source(f"ALTER TABLE {TABLE} ADD COLUMN x integer DEFAULT 3")
    mirror._until(lambda: len(audit_of(mirror).lines) == 2, 60, "the table to be altered")
    run(warehouse, "INSERT INTO ods.u VALUES (1, 'a')", f"DELETE FROM {TABLE} WHERE id < 5")
    mirror.wait_running()
    mirror.wait_equal()
    assert {line.what for line in audit_of(mirror).lines} == {f"dws1 {TABLE} slot {mirror.job.slot}"}
    mirror.source("ALTER TABLE ods.u ADD COLUMN x integer")
    said = mirror.wait_table("ods.u", JobState.FAILED)
    assert said.safe.startswith("ods.u: column x (integer) was added; run in the sink: ")
    assert statements_of(said.safe) == ["ALTER TABLE mart.u ADD COLUMN IF NOT EXISTS x integer"]
    assert mirror.heard.tables[TABLE].state == JobState.RUNNING.value
    mirror.stop()


def test_a_mapped_column_that_is_gone_is_named(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = prepared(warehouse, make_mirror, RESNAPSHOT)
    columns = (("id", "order_id"), ("v", "note"))
    mirror.job = replace(mirror.job, channels=(replace(mirror.job.channel, columns=columns),))
    insert(mirror, "1, 50")
    mirror.start().wait_running()
    mirror.source(f"ALTER TABLE {TABLE} RENAME COLUMN v TO u")
    error = mirror.wait_error()
    assert isinstance(error, Trouble), repr(error)
    assert error.hint.startswith(
        "columns names 'v', which the source table does not have (the source table has id, u, w, n);"
        " then run `slotkeeper slots reset"
    )
    assert not audit_of(mirror).lines


def test_what_the_sink_refuses_is_reported_with_what_to_type(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    mirror.at_sink(f"CREATE VIEW mart.totals AS SELECT sum(w) FROM {TARGET}")
    change(mirror, "drop")
    error = mirror.wait_error()
    assert isinstance(error, SlotkeeperError) and error.where == "sink", repr(error)
    assert "mart.totals" in error.message or "depend" in error.message, error
    assert f"run in the sink: `{CHANGES['drop'][1][0]}`; then run `slotkeeper slots reset" in error.hint
    assert [line.outcome.partition(":")[0] for line in audit_of(mirror).lines] == ["", "failed"]
    mirror.at_sink("DROP VIEW mart.totals")
    mirror.start()
    ended_equal(mirror)


def test_without_an_audit_nothing_is_altered(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    mirror.stop()
    mirror.audit = None
    change(mirror, "drop")
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble)
    assert statements_of(error.hint) == CHANGES["drop"][1]


def killed_at(mirror: Mirror, point: str, what: str) -> None:
    """The job is killed at that point; the next start ends equal."""
    mirror.stop()
    change(mirror, what)
    probe = At(point, kill)
    error = mirror.start(driver_probe=probe).wait_error()
    assert isinstance(error, Crash) and probe.done.is_set(), repr(error)
    mirror.start()
    ended_equal(mirror)


def test_a_kill_between_any_two_steps_loses_and_doubles_nothing(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    mirror.stop()
    for number, point in enumerate(POINTS):
        run(mirror.warehouse, f"ALTER TABLE {TABLE} ADD COLUMN x{number} integer DEFAULT {number}")
        probe = At(point, kill)
        error = mirror.start(driver_probe=probe).wait_error()
        assert isinstance(error, Crash) and probe.done.is_set(), (point, repr(error))
        mirror.start()
        ended_equal(mirror)


@pytest.mark.chaos
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("what", list(CHANGES))
def test_a_kill_at_every_step_of_every_change(
    what: str, point: str, warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    killed_at(running(warehouse, make_mirror, RESNAPSHOT), point, what)


VALUES = {"integer": "7", "bigint": "70000000000", "text": "'t'", "date": "'2026-01-01'", "numeric(9,2)": "1.25"}


def random_change(draw: random.Random, columns: dict[str, str]) -> str:
    """Make another change of the source; `columns` (type by name, without the key) follows it."""
    act = draw.choice(["ADD", "DROP", "RENAME", "TYPE"]) if columns else "ADD"
    name, type_ = f"c{draw.randrange(10**6)}", draw.choice(list(VALUES))
    if act == "ADD":
        columns[name] = type_
        given = draw.choice(["", "DEFAULT {}", "NOT NULL DEFAULT {}"]).format(VALUES[type_])
        return f"ALTER TABLE {TABLE} ADD COLUMN {name} {type_} {given}"
    old = draw.choice(sorted(columns))
    if act == "DROP":
        del columns[old]
        return f"ALTER TABLE {TABLE} DROP COLUMN {old}"
    if act == "RENAME":
        columns[name] = columns.pop(old)
        return f"ALTER TABLE {TABLE} RENAME COLUMN {old} TO {name}"
    columns[old] = type_
    column = f"ALTER COLUMN {old}"
    return f"ALTER TABLE {TABLE} {column} DROP DEFAULT, {column} TYPE {type_} USING {VALUES[type_]}::{type_}"


@pytest.mark.chaos
@pytest.mark.parametrize("number", range(6))
def test_a_job_outlives_many_changes_and_kills(
    number: int, warehouse: Warehouse, make_mirror: MakeMirror, seed: int
) -> None:
    draw = random.Random(seed * 100 + number)
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    columns = {"v": "text", "w": "integer", "n": "integer"}
    for turn in range(12):
        before = dict(columns)
        statements = [random_change(draw, columns) for _ in range(draw.randrange(1, 4))]
        while columns == before:  # a change that was reverted is a lost slot without a visible cause
            statements.append(random_change(draw, columns))
        kills = draw.random() < 0.5
        if kills:
            mirror.stop()
        mirror.source(*statements)
        run(warehouse, f"DELETE FROM {TABLE} WHERE id = {turn + 1}")
        if kills:
            probe = At(draw.choice(POINTS), kill)
            mirror.start(driver_probe=probe)
            # a copy that was due already may need nothing more of the target
            until(lambda: mirror.ended() or mirror.heard.state is LaneState.RUNNING, 60, "a kill, or that it runs")
            probe.armed = False
            if mirror.ended():
                assert isinstance(mirror.error, Crash), repr(mirror.error)
                mirror.start()
        if kills or draw.random() < 0.5:
            until_equal(mirror)
            mirror.wait_running()
    until_equal(mirror)
    mirror.stop()
