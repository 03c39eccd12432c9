"""The holder of a lock can be read while it holds the lock, and an earlier holder is never named instead."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from slotkeeper.core.launch import identity
from slotkeeper.core.state.folder import SignedLock, StateFolder, holder_of

AT = datetime(2026, 11, 23, 9, 0, tzinfo=timezone.utc)
PLACE = ("alerts", "evaluation")


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder.open(tmp_path / "state")


def test_the_holder_is_named_while_it_holds_the_lock(folder: StateFolder) -> None:
    me = identity.of(os.getpid(), "r1")
    lock = folder.try_lock(*PLACE)
    assert lock is not None and holder_of(folder, *PLACE) is None, "it has not identified itself"
    signed = SignedLock.of(lock, me, AT)
    found = holder_of(folder, *PLACE)
    assert found is not None and (found.who, found.since) == (me, AT)
    signed.release()
    assert holder_of(folder, *PLACE) is None and folder.lock_file(*PLACE).read_bytes() == b""


def test_the_signature_of_a_killed_holder_names_no_process_once_the_lock_is_free(folder: StateFolder) -> None:
    lock = folder.try_lock(*PLACE)
    assert lock is not None
    SignedLock.of(lock, identity.of(os.getpid()), AT)
    os.close(lock.descriptor)  # as the kernel does at a kill
    assert folder.lock_file(*PLACE).read_bytes() and holder_of(folder, *PLACE) is None
    again = folder.try_lock(*PLACE)
    assert again is not None
    me = identity.of(os.getpid(), "r2")
    SignedLock.of(again, me, AT)
    found = holder_of(folder, *PLACE)
    assert found is not None and found.who == me, "its own text, not preceded by that of the previous holder"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"since": 1}', "x" * 9_000, '{"since": "2026-01-01T00:00:00"}'])
def test_a_damaged_signature_names_no_process(folder: StateFolder, text: str) -> None:
    lock = folder.try_lock(*PLACE)
    assert lock is not None
    os.write(lock.descriptor, text.encode())
    assert holder_of(folder, *PLACE) is None
    lock.release()
