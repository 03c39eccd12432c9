"""A folder for sockets is removed once."""

from __future__ import annotations

import os
from pathlib import Path

from slotkeeper.core.drivers.socket_folder import socket_folder


def test_a_second_removal_closes_no_descriptor_of_others(tmp_path: Path) -> None:
    folder = socket_folder()
    assert folder is not None
    number = folder.lock
    folder.remove()
    with (tmp_path / "other").open("w") as other:
        assert other.fileno() == number, "the next file gets this number"
        folder.remove()
        os.fstat(other.fileno())
    assert not folder.path.exists()
