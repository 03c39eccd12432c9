"""A state file of another version: read-only commands leave it unchanged, a start migrates it and retains a copy."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.launch.launch import SUPERVISOR_LOCK
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.state import schema
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.sqlite import FILE_NAME, Store
from tests.support.upgrade import COMMITS, FIXTURES, JOB, asked, content, state_folder, version

ROOT = Path(schema.__file__).parents[2]
NOW = len(schema.migrations())


def test_a_migration_that_has_landed_is_never_changed() -> None:
    files = [*ROOT.glob("core/state/migrations/**/*.sql"), *ROOT.glob("core/sinks/postgres/migrations/**/*.sql")]
    found = {str(file.relative_to(ROOT)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    lines = (FIXTURES / "frozen.sha256").read_text().splitlines()
    frozen = {path: sum_ for sum_, path in (line.split() for line in lines)}
    assert found == frozen, "write a new migration with the next number, and add its line (sha256sum) to frozen.sha256"


def test_migrations_are_numbered_without_a_gap() -> None:
    folders = [ROOT / "core/state/migrations", *(ROOT / "core/sinks/postgres/migrations").iterdir()]
    for folder in folders:
        numbers = [int(file.name[:3]) for file in sorted(folder.glob("[0-9]*.sql"))]
        assert numbers == list(range(1, len(numbers) + 1)), folder


@pytest.mark.parametrize("commit", COMMITS)
def test_a_look_at_an_earlier_versions_file_reads_its_job_and_changes_nothing(commit: str, tmp_path: Path) -> None:
    file = state_folder(commit, tmp_path / "state").path / FILE_NAME
    before = content(file)
    with Store.open(file.parent) as store:
        (job,) = store.jobs()
        assert (job.name, job.state, job.wanted) == (JOB, JobState.RUNNING, WantedState.RUN)
        assert store.runs(JOB)[0].ended_at is None
        assert store.events(JOB)[0].event == "caught up"
    assert content(file) == before
    assert not list(file.parent.glob("*.version-*"))


def test_a_write_to_an_older_file_is_refused_with_the_command_that_migrates_it(tmp_path: Path) -> None:
    file = state_folder("41bb8e69", tmp_path / "state").path / FILE_NAME
    before = content(file)
    with Store.open(file.parent) as store, pytest.raises(StateError, match=r"older slotkeeper \(schema 2") as refused:
        store.set_wanted(JOB, WantedState.PAUSE)
    assert "`slotkeeper jobs start JOB` migrates it" in refused.value.hint
    assert content(file) == before


def test_a_start_migrates_the_file_and_keeps_a_copy_named_with_its_version(tmp_path: Path) -> None:
    file = state_folder("41bb8e69", tmp_path / "state").path / FILE_NAME
    before = content(file)
    with Store.open(file.parent, migrates=True) as store:
        (job,) = store.jobs()
        assert (job.name, job.state, job.wanted) == (JOB, JobState.RUNNING, WantedState.RUN)
        store.set_wanted(JOB, WantedState.STOP)
    copy = file.with_name(f"{FILE_NAME}.version-2")
    assert (version(file), version(copy)) == (NOW, 2)
    assert content(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o600


def test_the_earlier_commit_that_is_nearest_needs_no_migration_today(tmp_path: Path) -> None:
    file = state_folder("7f5457e0", tmp_path / "state").path / FILE_NAME
    assert version(file) == NOW == 5, "if there is a sixth migration, compare its result for this file, too"


def test_a_migrated_file_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    shape = "SELECT m.name, c.name, c.type, c.pk FROM sqlite_master m, pragma_table_info(m.name) c ORDER BY 1, c.name"
    with Store.open(tmp_path / "new") as store:
        new = asked(store.file, shape)
    for commit in COMMITS:
        folder = state_folder(commit, tmp_path / commit)
        with Store.open(folder.path, migrates=True) as store:
            assert asked(store.file, shape) == new


def test_a_file_that_a_later_versions_look_has_half_migrated_is_healed(tmp_path: Path) -> None:
    file = state_folder("41bb8e69", tmp_path / "state").path / FILE_NAME
    with closing(sqlite3.connect(file)) as connection:  # as 7f5457e0 did: its numbers went on after others' tables
        for script in schema.migrations()[2:5]:
            connection.executescript(script)
        connection.execute("PRAGMA user_version = 5")
    with Store.open(file.parent) as store:
        assert store.jobs()[0].wanted is WantedState.RUN
    with Store.open(file.parent, migrates=True) as store:
        assert store.jobs()[0].wanted is WantedState.RUN
        assert store.read("SELECT count(*) FROM tables_wanted")[0][0] == 0
    assert version(file) == NOW


def test_a_migration_that_fails_leaves_the_file_at_the_last_number_that_was_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "state") as store:
        store.register_job(JOB, "c")
        file = store.file
    good = "CREATE TABLE sixth (x TEXT) STRICT;\n"
    broken = "CREATE TABLE seventh (x TEXT) STRICT;\nINSERT INTO nowhere VALUES (1);\n"
    steps = [*schema.migrations(), good, broken]
    monkeypatch.setattr(schema, "migrations", lambda: steps)
    with pytest.raises(StateError, match="nowhere"):
        Store.open(file.parent, migrates=True)
    assert version(file) == 6
    assert not asked(file, "SELECT 1 FROM sqlite_master WHERE name = 'seventh'")
    assert version(file.with_name(f"{FILE_NAME}.version-5")) == 5


def test_a_file_is_not_migrated_under_a_job_that_the_older_version_runs(tmp_path: Path) -> None:
    folder = state_folder("41bb8e69", tmp_path / "state")
    file = folder.path / FILE_NAME
    before, lock = content(file), folder.try_lock(JOB, SUPERVISOR_LOCK)
    assert lock is not None
    with pytest.raises(StateError, match=f"older slotkeeper, which still runs job {JOB}") as refused:
        Store.open(folder.path, migrates=True)
    assert f"jobs stop {JOB}" in refused.value.hint
    assert content(file) == before
    lock.release()
    Store.open(folder.path, migrates=True).close()
    assert version(file) == NOW


@pytest.mark.parametrize("migrates", [False, True])
def test_a_newer_versions_file_is_refused_in_one_line_and_untouched(migrates: bool, tmp_path: Path) -> None:
    file = state_folder("7f5457e0", tmp_path / "state").path / FILE_NAME
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = content(file)
    with pytest.raises(StateError, match=r"newer slotkeeper \(schema 99") as refused:
        Store.open(file.parent, migrates=migrates).jobs()
    assert "\n" not in refused.value.message
    assert content(file) == before


def test_a_console_that_looks_sees_another_process_write_and_then_migrate(tmp_path: Path) -> None:
    file = state_folder("41bb8e69", tmp_path / "state").path / FILE_NAME
    with Store.open(file.parent) as looking:
        assert looking.jobs()[0].reason == ""
        with closing(sqlite3.connect(file)) as older:
            older.execute("UPDATE jobs SET reason = 'told by the older one'")
            older.commit()
        assert looking.jobs()[0].reason == "told by the older one"
        with Store.open(file.parent, migrates=True) as starting:
            starting.set_wanted(JOB, WantedState.PAUSE)
        assert looking.jobs()[0].wanted is WantedState.PAUSE
        looking.set_wanted(JOB, WantedState.RUN)
    assert asked(file, "SELECT wanted FROM jobs") == [("run",)]


def test_only_the_newest_copies_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path / "state") as store:
        folder = store.folder.path
    steps = schema.migrations()
    for number in range(NOW + 1, NOW + 7):
        steps = [*steps, f"CREATE TABLE t{number} (x TEXT) STRICT;\n"]
        monkeypatch.setattr(schema, "migrations", lambda steps=steps: steps)
        Store.open(folder, migrates=True).close()
    copies = sorted(int(one.name.rpartition("-")[2]) for one in folder.glob("*.version-*"))
    assert copies == [NOW + 3, NOW + 4, NOW + 5]


@pytest.mark.parametrize(("number", "code", "verdict"), [(2, 0, "migrates"), (99, 3, "refused")])
def test_a_check_before_an_upgrade_says_what_happens_to_the_file_and_leaves_it(
    number: int, code: int, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = state_folder("7f5457e0", tmp_path / "state").path / FILE_NAME
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    before = content(file)
    assert main(["upgrade", "--check", "--state-dir", str(file.parent)]) == code
    assert verdict in capsys.readouterr().out
    assert content(file) == before
    assert main(["upgrade"]) == 2


def test_the_changelog_has_the_version_of_every_store() -> None:
    text = (Path(__file__).parents[3] / "CHANGELOG.md").read_text("utf-8")
    assert f"| state file | schema {NOW} |" in text
    rows = dict(re.findall(r"^\| ([\w, ]+) tables \| (\d+) \|", text, re.MULTILINE))
    found = {group: int(number) for groups, number in rows.items() for group in groups.split(", ")}
    assert found == {group: len(own_tables.migrations(group)) for group in own_tables.TABLES}
