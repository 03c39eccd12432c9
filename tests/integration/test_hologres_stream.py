"""A shard's stream over a socket, from recorded bytes: its requests, repeated reads, and LSNs that move nothing.

`StreamServer` answers START_REPLICATION with recorded bytes: no Hologres. What a Hologres writes into the LSNs of
frames and keepalives is not known, so a test chooses. Protocol: PostgreSQL, "Streaming Replication Protocol".
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.errors import Busy, SlotkeeperError, Unclassified, Unreachable
from slotkeeper.core.sinks.hologres.kind import classify
from slotkeeper.core.sources.hologres.changes import AFTER, BEFORE, HEARTBEAT, INSERT, Event
from slotkeeper.core.sources.hologres.stream.records import ShardRanges
from slotkeeper.core.sources.hologres.stream.shard import START, ShardReader, ShardStream, StreamAsked
from slotkeeper.demo.hologres.stream_rows import message, row
from tests.support.tls_lines import exactly
from tests.support.waiting import until

_TLS, _GSS = 80_877_103, 80_877_104


def logged(payload: bytes, start: int = 0, end: int = 0) -> bytes:
    return b"w" + struct.pack("!qqq", start, end, 0) + payload


def keepalive(end: int, reply: bool = True) -> bytes:
    """A keepalive with this LSN as the end of the log."""
    return b"k" + struct.pack("!qqb", end, 0, reply)


@dataclass
class StreamServer:
    """Serves one script a login; a script that ends leaves the connection open, `CUT` in it closes the connection."""

    scripts: list[list[bytes]]
    commands: list[str] = field(default_factory=list)
    startups: list[dict[str, str]] = field(default_factory=list)
    flushed: list[int] = field(default_factory=list)
    """The flush position of each status that a client sent."""
    refusal: bytes = b""
    """The refusals of the first commands, as fields of an ErrorResponse."""
    answered: threading.Event = field(default_factory=threading.Event)
    """Set by a status."""

    def __post_init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def endpoint(self) -> Endpoint:
        return Endpoint("holo", "127.0.0.1", self._socket.getsockname()[1], "db", "etl", sslmode="disable")

    def close(self) -> None:
        for one in (self._socket, *self._clients):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self._clients.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError):
            self._startup(client)
            client.sendall(_message(b"R", struct.pack("!i", 0)))
            for name, value in {"server_version": "11.3", "client_encoding": "UTF8"}.items():
                client.sendall(_message(b"S", f"{name}\0{value}\0".encode()))
            client.sendall(_message(b"Z", b"I"))
            kind, body = _read(client)
            assert kind == b"Q", kind
            self.commands.append(body.rstrip(b"\0").decode())
            if self.refusal:
                refusal, self.refusal = self.refusal, b""
                client.sendall(_message(b"E", refusal) + _message(b"Z", b"I"))
            else:
                self._stream(client)
            client.close()

    def _stream(self, client: socket.socket) -> None:
        client.sendall(_message(b"W", b"\0\0\0"))
        script = self.scripts.pop(0)
        for frame in script:
            if frame == CUT:
                client.shutdown(socket.SHUT_RDWR)
                return
            client.sendall(_message(b"d", frame))
        while True:
            kind, body = _read(client)
            if kind == b"d" and body[:1] == b"r":
                self.flushed.append(struct.unpack_from("!q", body, 9)[0])
                self.answered.set()
            elif kind == b"X":
                return

    def _startup(self, client: socket.socket) -> None:
        while True:
            (size,) = struct.unpack("!i", exactly(client, 4))
            body = exactly(client, size - 4)
            if struct.unpack_from("!i", body)[0] in (_TLS, _GSS):
                client.sendall(b"N")
                continue
            words = [word.decode() for word in body[4:].split(b"\0")]
            self.startups.append(dict(zip(words[::2], words[1::2], strict=False)))
            return


CUT = b"\0cut"


@contextmanager
def streaming(scripts: Sequence[Sequence[bytes]], refusal: bytes = b"") -> Iterator[StreamServer]:
    server = StreamServer([list(one) for one in scripts], refusal=refusal)
    try:
        yield server
    finally:
        server.close()


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _read(client: socket.socket) -> tuple[bytes, bytes]:
    kind = exactly(client, 1)
    (size,) = struct.unpack("!i", exactly(client, 4))
    return kind, exactly(client, size - 4)


COLUMNS = (Column("id", "bigint"),)
FOREIGN = 999_999_999


def rows(*lsns: int, event: int = INSERT) -> bytes:
    return logged(message([row(lsn, event, 1, ["bigint"], [lsn]) for lsn in lsns]))


def reader(server: StreamServer, after: int = START, compressed: bool = False) -> ShardReader:
    login = Login(server.endpoint(), "geheim-8", "slotkeeper/test")
    stream = ShardStream(2, lambda: (1, COLUMNS), after, compressed=compressed)
    return ShardReader(login, classify, StreamAsked("ods.t", 100, compressed), stream)


def read(shard: ShardReader, lsns: Sequence[int], again: bool = False) -> list[SlotkeeperError]:
    """Read until these rows have arrived, each once; return the errors on the way."""
    came: list[int] = []
    errors: list[SlotkeeperError] = []

    def all_there() -> bool:
        try:
            delivered = shard.read(0.2)
        except SlotkeeperError as error:
            errors.append(error)
            return False
        came.extend(one.lsn for one in delivered.rows) if delivered else None
        return len(came) >= len(lsns)

    until(all_there, 20, "all rows to come")
    assert came == list(lsns)
    return errors


def test_a_stream_is_asked_for_by_table_and_lsn_without_a_slot() -> None:
    with streaming([[rows(18)], [rows(1)]]) as server:
        for after, place in ((17, "\"start_lsn\" '17'"), (START, "\"start_time\" '1970-01-01 08:00:00+08:00'")):
            with closing(reader(server, after)) as shard:
                read(shard, [18 if after > 0 else 1])
            options = f"(\"parallel_index\" '2', \"batch_size\" '100', \"table_name\" 'ods.t', {place})"
            assert server.commands[-1] == f"START_REPLICATION SLOT null LOGICAL 0/0 {options}"
        assert server.startups[0]["replication"] == "database"


def test_a_line_that_breaks_in_mid_batch_begins_behind_the_last_whole_row() -> None:
    half = rows(4, event=BEFORE)
    scripts = [[rows(1, 2, 3), half, CUT], [half, rows(5, event=AFTER), rows(3, 6)]]
    with streaming(scripts) as server, closing(reader(server, after=0)) as shard:
        errors = read(shard, [1, 2, 3, 4, 5, 6])
    assert [type(one) for one in errors] == [Unreachable]
    assert "\"start_lsn\" '3'" in server.commands[1]


def test_a_keepalive_with_a_foreign_lsn_moves_nothing_here_and_names_no_slot() -> None:
    frames = [keepalive(FOREIGN), rows(1), keepalive(FOREIGN + 1), rows(2, 3), keepalive(FOREIGN + 2)]
    with streaming([frames, [rows(4)]]) as server:
        with closing(reader(server, after=0)) as shard:
            read(shard, [1, 2, 3])
            assert server.answered.wait(10)
            shard.close()
            read(shard, [4])
        assert "\"start_lsn\" '3'" in server.commands[1]
        assert all("SLOT null" in one for one in server.commands)


def test_why_no_slot_is_named_the_driver_tells_a_keepalives_own_lsn_as_flushed() -> None:
    with streaming([[keepalive(FOREIGN), rows(1)]]) as server, closing(reader(server, after=0)) as shard:
        read(shard, [1])
        until(lambda: FOREIGN in server.flushed, 10, "the driver to tell the keepalive's LSN")


def test_a_compressed_stream_is_asked_for_and_read() -> None:
    raw = [row(lsn, INSERT, 1, ["bigint"], [lsn]) for lsn in range(1, 60)]
    with streaming([[logged(message(raw, compressed=True))]]) as server:
        with closing(reader(server, after=0, compressed=True)) as shard:
            read(shard, range(1, 60))
        assert "\"enable_compression\" 'true'" in server.commands[0]


def test_an_empty_message_says_that_there_is_no_more() -> None:
    with streaming([[logged(message())]]) as server, closing(reader(server, after=9)) as shard:
        delivered = until(lambda: shard.read(0.2), 10, "the message")
        assert (delivered.rows, delivered.lsn, delivered.caught_up) == ((), 9, True)
        assert shard.read(0.01) is None


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (b"SERROR\0C53300\0Mtoo many wal senders already\0\0", Busy),
        (b"SERROR\0CXX000\0Mshard 2 of table ods.t: replay not finished yet\0\0", Busy),
        (b"SERROR\0CXX000\0Mcould not open relation with OID 7\0\0", Busy),
        (b"SERROR\0CXX000\0Msomething else\0\0", Unclassified),
    ],
)
def test_a_stream_that_is_refused_is_tried_again_where_that_passes(refusal: bytes, kind: type[SlotkeeperError]) -> None:
    with streaming([[rows(1)]], refusal) as server, closing(reader(server, after=0)) as shard:
        with pytest.raises(kind):
            shard.read(5)
        read(shard, [1])


def ranges(server: StreamServer, wait_seconds: float = 10.0) -> ShardRanges:
    return ShardRanges(lambda after: reader(server, after), wait_seconds, behind_seconds=0.1)


def lsns(found: Iterable[Event]) -> list[int]:
    return [one.lsn for one in found]


def test_ranges_are_cut_out_of_one_stream_and_rows_behind_their_end_wait() -> None:
    frames = [rows(1, 2), logged(message()), rows(5), rows(7, event=BEFORE), rows(8, event=AFTER), rows(9, 12)]
    with streaming([frames]) as server, closing(ranges(server)) as shard:
        assert lsns(shard.rows(0, 1)) == [1]
        assert lsns(shard.rows(1, 2)) == [2]
        assert lsns(shard.rows(2, 5)) == [5], "an empty message is not accepted at once"
        assert lsns(shard.rows(5, 12)) == [7, 8, 9, 12]
        assert len(server.commands) == 1


def test_a_stream_that_has_no_more_though_a_row_was_named_is_read_again() -> None:
    says = "no row after LSN 1, but has a row at 5"
    script = [rows(1), logged(message())]
    with streaming([script]) as server, closing(ranges(server)) as shard, pytest.raises(Busy, match=says):
        lsns(shard.rows(0, 5))


def test_a_range_is_not_whole_without_the_record_at_its_end() -> None:
    with streaming([[rows(1, 2, 5)], [rows(1, 2, 3, 5)]]) as server, closing(ranges(server)) as shard:
        with pytest.raises(Busy, match="continued at LSN 5 without the row at 3"):
            lsns(shard.rows(0, 3))
        assert lsns(shard.rows(0, 3)) == [1, 2, 3]


def test_a_range_may_end_at_a_heartbeat_that_the_server_has_named() -> None:
    frames = [rows(1), rows(4, event=HEARTBEAT), rows(6)]
    with streaming([frames]) as server, closing(ranges(server)) as shard:
        assert lsns(shard.rows(0, 4)) == [1]
        assert lsns(shard.rows(4, 6)) == [6]
        assert len(server.commands) == 1


def test_a_range_that_begins_elsewhere_begins_a_new_stream_there() -> None:
    second = [rows(7, event=BEFORE), rows(8, event=AFTER), rows(9, 12)]
    with streaming([[rows(1, 2, 5)], second]) as server, closing(ranges(server)) as shard:
        assert lsns(shard.rows(0, 5)) == [1, 2, 5]
        assert lsns(shard.rows(5, 5)) == []
        shard.close()
        assert lsns(shard.rows(5, 7)) == [7], "the half of an update at the end of a range"
        assert lsns(shard.rows(7, 12)) == [8, 9, 12]
        assert lsns(shard.rows(12, 12)) == []
        assert ["'5'" in one for one in server.commands] == [False, True]


def test_a_range_whose_rows_do_not_come_is_abandoned_in_time() -> None:
    with streaming([[rows(1)], [rows(1, 2)]]) as server, closing(ranges(server, 0.3)) as shard:
        with pytest.raises(Unreachable, match="sent nothing new within"):
            lsns(shard.rows(0, 2))
        assert lsns(shard.rows(0, 2)) == [1, 2], "the whole range again, over a new connection"
