"""A password change at a server, with all its sessions ended, ends no running job: its reference is read again."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from slotkeeper.core.domain.refusals import PASSWORDS, said
from slotkeeper.core.errors import LoginRefused
from slotkeeper.demo.warehouse import Warehouse
from tests.support.least import WAYS, Rotation, run
from tests.support.mirror import MakeMirror
from tests.support.waiting import until

TABLE = "ods.orders"


@pytest.fixture
def rotation(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> Rotation:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    return Rotation(make_mirror(warehouse, TABLE, "mart.t"), "file", tmp_path, monkeypatch, random.Random(seed))


@pytest.mark.parametrize("way", WAYS)
def test_a_rotated_password_ends_no_running_job_and_the_new_one_is_used_by_itself(rotation: Rotation, way: str) -> None:
    rotation.way = way
    rotation.prepare().mirror.start().wait_running()
    rotation.rotate()
    rotation.followed(f"INSERT INTO {TABLE} SELECT n, 'x' FROM generate_series(1, 500) n")
    rotation.mirror.stop()
    print(f"way {way}: rows were at the sink after {', '.join(f'{one:.1f} s' for one in rotation.seconds)}")


def test_a_job_whose_reference_is_late_waits_and_says_so_and_asks_no_server_in_vain(rotation: Rotation) -> None:
    rotation.way = "command"
    mirror = rotation.prepare().mirror
    mirror.start().wait_running()
    sink = mirror.job.sink.user
    before = rotation.runs(sink)

    def refused() -> bool:
        return any(said(lane.error, PASSWORDS) for lane in mirror.heard.now.values())

    told = threading.Thread(target=lambda: until(refused, 60, "the lanes to say so"), daemon=True)
    told.start()
    rotation.rotate(behind=4.0)
    assert not told.is_alive(), "the lanes report that the login is rejected"
    rotation.followed(f"INSERT INTO {TABLE} VALUES (1, 'x')")
    mirror.stop()
    assert rotation.runs(sink) - before < 40, "the sessions do not each run the command"


def test_a_start_with_a_wrong_password_fails_after_two_tries(rotation: Rotation) -> None:
    mirror = rotation.prepare().mirror
    run(mirror.sink, f"ALTER ROLE {mirror.job.sink.user} PASSWORD 'another-0ne'")
    assert isinstance(mirror.start().wait_error(), LoginRefused)
    assert len(mirror.heard.retries) == 1


def test_a_reference_that_says_nothing_for_a_moment_ends_no_running_job(rotation: Rotation) -> None:
    mirror = rotation.prepare().mirror
    mirror.start().wait_running()
    file = Path(mirror.job.sink.password.ref)
    plain = file.read_text()
    file.write_text("")
    run(mirror.sink, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{mirror.job.sink.user}'")
    until(lambda: any("is empty" in one.error for one in mirror.heard.now.values()), 60, "the lanes to say so")
    file.write_text(plain)
    rotation.followed(f"INSERT INTO {TABLE} VALUES (1, 'x')")
    mirror.stop()
