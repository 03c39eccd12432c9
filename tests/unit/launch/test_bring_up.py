"""A start waits for its supervisor through a pipe, whatever the number of descriptors that its process has open."""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.view import Starting, observe
from slotkeeper.core.state.sqlite import Store

BEYOND = 1_100
"""More than FD_SETSIZE of select(2), which is 1,024."""


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (resource.RLIM_INFINITY,) and hard < BEYOND + 8:
        pytest.skip(f"this system allows {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, BEYOND + 8), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_exit_of_a_supervisor_is_seen_beyond_1024_descriptors(
    many_descriptors: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = os.pipe

    def far() -> tuple[int, int]:
        reading, writing = pipe()
        found = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, BEYOND)
        os.close(reading)
        return found, writing

    monkeypatch.setattr(os, "pipe", far)
    monkeypatch.setattr(control, "spawn_supervisor", lambda *_, **__: None)
    monkeypatch.setattr(control, "_has_supervisor", lambda view: False)
    with Store.open(tmp_path / "state") as store:
        store.register_job("orders", str(tmp_path / "c.toml"))
        with pytest.raises(Refused, match="the supervisor of job orders has exited"):
            control._bring_up_supervisor(store, "orders", "c.toml", "r", Patience())


@pytest.mark.parametrize(("lives", "raised"), [(True, Starting), (False, Busy)])
def test_a_start_with_processes_that_is_pending_after_the_wait_is_still_starting(
    lives: bool, raised: type[Busy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "state") as store:
        store.register_job("orders", str(tmp_path / "c.toml"))
        pending = replace(observe(store, "orders"), state=JobState.PENDING, reason="x", supervisor_alive=lives)
        monkeypatch.setattr(control, "observe", lambda *_: pending)
        with pytest.raises(Busy) as late:
            control._seen(store, "orders", Patience(1e-9), control.has_begun, "start")
    assert type(late.value) is raised
    assert not lives or late.value.message == "job orders is still starting: after 1e-09 s it is PENDING: x"
