"""A MySQL server that never answers, or stops in the middle of a packet: the call ends at its deadline, not later."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.drivers import my

SECONDS = 0.3


@pytest.fixture
def line() -> Iterator[tuple[my.Dump, socket.socket]]:
    """A stream and the server's end of its connection."""
    ours, theirs = socket.socketpair()
    raw: Any = SimpleNamespace(_sock=ours, _force_close=ours.close)
    yield my.Dump(my.Session(cast("Any", raw), SECONDS)), theirs
    for one in (ours, theirs):
        one.close()


def packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


def test_a_server_that_never_greets_is_left_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = Endpoint("silent", "127.0.0.1", server.getsockname()[1], "", "user", sslmode="disable")
        with pytest.raises(my.NoAnswer):
            my.connect(endpoint, "", "slotkeeper/test", SECONDS)


def test_an_address_without_a_listener_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(my.DriverError, match="cannot be reached") as refused:
        my.connect(Endpoint("none", "127.0.0.1", port, "", "user", sslmode="disable"), "", "slotkeeper/test", SECONDS)
    assert my.code_of(refused.value) == 2003


def test_packets_come_whole_however_the_line_cuts_them(line: tuple[my.Dump, socket.socket]) -> None:
    dump, server = line
    whole = packet(1, b"\0one") + packet(2, b"\0" + bytes(5000)) + packet(3, b"\xfe\0\0\0\0")
    for at in range(0, len(whole), 1500):
        server.sendall(whole[at : at + 1500])
    assert dump.packet(SECONDS) == b"\0one"
    assert dump.packet(SECONDS) == b"\0" + bytes(5000)
    assert dump.packet(SECONDS) is None


def test_silence_in_the_middle_of_a_packet_ends_at_the_deadline(line: tuple[my.Dump, socket.socket]) -> None:
    dump, server = line
    server.sendall(packet(1, b"\0half of it")[:6])
    with pytest.raises(my.NoAnswer):
        dump.packet(SECONDS)


def test_a_line_that_closes_is_lost(line: tuple[my.Dump, socket.socket]) -> None:
    dump, server = line
    server.sendall(packet(1, b"\0half of it")[:6])
    server.close()
    with pytest.raises(my.DriverError, match="closed the connection") as lost:
        dump.packet(SECONDS)
    assert my.code_of(lost.value) == 2013


def test_a_packet_out_of_order_is_refused(line: tuple[my.Dump, socket.socket]) -> None:
    dump, server = line
    server.sendall(packet(2, b"\0"))
    with pytest.raises(my.DriverError, match="got packet 2, expected 1"):
        dump.packet(SECONDS)


def test_an_error_of_the_server_is_raised_with_its_number(line: tuple[my.Dump, socket.socket]) -> None:
    dump, server = line
    server.sendall(packet(1, b"\xff" + struct.pack("<H", 1236) + b"#HY000purged"))
    with pytest.raises(my.DriverError, match="purged") as error:
        dump.packet(SECONDS)
    assert my.code_of(error.value) == 1236


def test_an_event_of_more_than_any_has_is_cut(
    line: tuple[my.Dump, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server declares in each packet that another packet continues it."""
    monkeypatch.setattr(my, "_MAX_PACKET", 1_000)
    monkeypatch.setattr(my, "EVENT_BYTES", 10_000)
    dump, server = line
    server.sendall(b"".join(packet(number, b"\0" * 1_000) for number in range(1, 12)))
    with pytest.raises(my.TooMuch):
        dump.packet(SECONDS)
