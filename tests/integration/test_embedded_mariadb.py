"""A MariaDB of the demo, on unusual hosts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from slotkeeper.core.errors import ConfigError
from slotkeeper.demo import mariadb
from tests.support import maria


def test_a_server_starts_where_its_user_cannot_enter_the_temporary_folder_of_who_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        mariadb.find_programs()
    except ConfigError as error:
        pytest.skip(str(error))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(closed))
    server = maria.begin()
    try:
        with closing(server.session()) as session:
            assert session.rows("SELECT @@tmpdir") == [(str(server.temporary_dir),)]
    finally:
        maria.end(server)
    assert list(closed.iterdir()) == []
