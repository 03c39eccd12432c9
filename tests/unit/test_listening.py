"""The comparison of listening sockets with the page's table."""

from __future__ import annotations

import os
import socket

import psutil
import pytest

from tests.support.listening import Socket, allowed, sockets, unlisted

ROWS = {"postgres": 1}


def test_the_table_has_a_row_for_each_process_that_listens() -> None:
    rows = allowed()
    servers = {"postgres", "mariadbd", "demo", "driver JVM", "executor", "master", "worker"}
    assert servers | {"driver", "python worker"} <= rows.keys()
    assert "supervisor" not in rows


def test_a_socket_of_a_process_is_found_and_one_without_a_row_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = [one for one in sockets([psutil.Process()]) if one.port == server.getsockname()[1]]
        assert [(one.pid, one.loopback) for one in mine] == [(os.getpid(), True)]
        assert len(unlisted(mine, ROWS)) == 1


@pytest.mark.parametrize(
    ("found", "reports"),
    [
        ([Socket("postgres", 1, "127.0.0.1", 5000)], 0),
        ([Socket("postgres", 1, "::ffff:127.0.0.1", 5000), Socket("postgres", 2, "::1", 5001)], 0),
        ([Socket("postgres", 1, "127.0.0.1", 5000), Socket("postgres", 1, "127.0.0.1", 5001)], 1),
        ([Socket("postgres", 1, "0.0.0.0", 5000)], 1),
        ([Socket("postgres", 1, "::", 5000)], 1),
        ([Socket("java", 1, "127.0.0.1", 5000)], 1),
    ],
)
def test_a_port_more_than_the_row_an_address_beyond_loopback_and_a_strange_process_are_reported(
    found: list[Socket], reports: int
) -> None:
    assert len(unlisted(found, ROWS)) == reports
