"""Lanes read their tables from the job's feed, over a Unix socket, and for themselves if the feed lacks their rows.

The feed runs in the driver, lanes run in workers. The socket is in a folder that only the user of the driver can enter,
together with a random key that each client has to prove to know, because rows pass through it as pickled values. A
worker on another host finds no such folder, and reads for itself.
"""

from __future__ import annotations

import hmac
import os
import pickle
import secrets
import socket
import socketserver
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any, BinaryIO

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.ports import kinds as ports
from slotkeeper.core.ports.kinds import FeedAsked
from slotkeeper.core.sources.mysql.feed import WAIT_SECONDS, Answer, Asked, Feed, News, Server, first_of
from slotkeeper.core.sources.mysql.position import MysqlPosition, ours
from slotkeeper.core.sources.mysql.session import MysqlSession, ServerFacts
from slotkeeper.core.sources.mysql.statements import Statement
from slotkeeper.core.sources.mysql.stream import Follower, Ranged, Reading, Stream, is_end, same, there
from slotkeeper.core.sources.mysql.transactions import End, Table, TableRows

_SOCKET, _KEY = "feed.sock", "feed.key"
_KEY_BYTES = 32
_LENGTH = struct.Struct("<Q")
ANSWER_SECONDS = 4 * WAIT_SECONDS
"""Maximum time that a lane waits for an answer of the driver."""


class _Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    feed: Feed
    key: bytes
    clients: set[socket.socket]


class _Client(socketserver.StreamRequestHandler):
    """A lane's connection: the key, then requests, each of which is answered before the next."""

    server: _Listener

    def handle(self) -> None:
        if not hmac.compare_digest(self.rfile.read(_KEY_BYTES), self.server.key):
            return
        self.server.clients.add(self.request)
        with suppress(OSError, EOFError):
            while True:
                asked: Asked | News = _receive(self.rfile)
                feed = self.server.feed
                self.wfile.write(_frame(feed.find_news(asked) if isinstance(asked, News) else feed.answer(asked)))

    def finish(self) -> None:
        self.server.clients.discard(self.request)
        with suppress(OSError):
            super().finish()


def serve(feed: Feed, folder: Path) -> Callable[[], None]:
    """Start the feed, and answer lanes at `folder` in a thread for each connection; return what ends both."""
    key, file = secrets.token_bytes(_KEY_BYTES), folder / _KEY
    file.touch(0o600)
    file.write_bytes(key)
    listener = _Listener(str(folder / _SOCKET), _Client)
    listener.feed, listener.key, listener.clients = feed, key, set()
    feed.start()
    threading.Thread(target=partial(listener.serve_forever, 0.25), name="slotkeeper-feed-clients", daemon=True).start()

    def close() -> None:
        listener.shutdown()
        listener.server_close()
        feed.close()
        for client in tuple(listener.clients):
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    return close


def _frame(value: object) -> bytes:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


def _receive(stream: BinaryIO | BufferedIOBase) -> Any:
    """Return the next value from a peer that has proven to know the key; raises EOFError if it has closed."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)  # noqa: S301 - from a process of this job


def logged_name(table: str, facts: ServerFacts) -> Table:
    """Return the name of the table `schema.name` in the binlog; only for servers that have a feed (`open_feed`)."""
    schema, _, name = (table.lower() if facts.of("lower_case_table_names") == "1" else table).partition(".")
    return schema, name


def open_feed(login: Login, asked: FeedAsked) -> ports.Feed | None:
    """Start a job's feed; None if the names of the job's tables in the binlog cannot be known.

    MySQL, "Identifier Case Sensitivity": lower_case_table_names = 0 compares by case, 1 stores names in lower case.
    """
    session = MysqlSession(login)
    try:
        case = session.facts.of("lower_case_table_names")  # read while the session is open
        starts = [session.resolved(ours(place)) for place in asked.positions.values()]
    finally:
        session.close()
    if case not in ("0", "1"):
        return None
    tables = [logged_name(name, session.facts) for name in asked.positions]

    def begin(at: MysqlPosition, number: int) -> tuple[Stream, Server]:
        server = session.facts.identity

        def connect() -> my.Session:
            """Open a connection to the server of this stream, even if the session has reached another one since."""
            opened = session.connect_same()
            if session.facts.identity != server:
                opened.close()
                raise Unreachable(f"source {session.place}: another server answers", where="source")
            return opened

        # the first server_id is always the same, so that the server ends the stream of an earlier driver
        reader = f"{asked.slot}\x1f{asked.job}\x1ffeed" + (f"\x1f{number}" if number else "")
        reading = Reading(session.replica(reader), tables, every=True)
        return Stream(connect, session.place, session.user, at, reading), server

    feed = Feed(begin, tables, first_of(starts))
    return ports.Feed(str(asked.folder), serve(feed, asked.folder), lambda: feed.error)


class FeedLine:
    """A session's connection to the feed at an address; not thread-safe."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._answers: BinaryIO | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the feed answered the last request."""
        return self._socket is not None

    def ask(self, asked: Asked) -> Answer | None:
        """Return the feed's answer; None if the feed cannot be reached or cannot supply the range."""
        answer: Answer | None = self._answer(asked)
        return answer

    def find_news(self, asked: News) -> set[Table] | None:
        """Return the feed's answer; None if the feed cannot be reached or has not read up to `asked.up_to`."""
        found: set[Table] | None = self._answer(asked)
        return found

    def _answer(self, asked: Asked | News) -> Any:
        try:
            if self._socket is None or self._answers is None:
                folder = Path(self._address)
                seen = folder.stat(follow_symlinks=False)
                if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o077:
                    raise PermissionError(self._address)  # the driver's was removed: another user can have made this
                key = (folder / _KEY).read_bytes()
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.settimeout(ANSWER_SECONDS)
                self._socket.connect(str(folder / _SOCKET))
                self._answers = self._socket.makefile("rb")
                self._socket.sendall(key)
            self._socket.sendall(_frame(asked))
            answer = _receive(self._answers)
        except (OSError, EOFError):
            self.close()
            return None
        except BaseException:  # an answer that is still to come belongs to this request
            self.close()
            raise
        return answer

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        for one in (self._answers, self._socket):
            if one is not None:
                one.close()
        self._socket = self._answers = None


class Joined:
    """Reads ranges as `Follower` does, from the feed where possible, and otherwise over the lane's `own` stream.

    `place` returns the session's server and the table as the binlog names it, `judged` a statement as the table's own
    stream returns it.
    """

    def __init__(
        self,
        own: Follower,
        line: FeedLine,
        place: Callable[[], tuple[Server, Table]],
        judged: Callable[[Statement], Statement | End | None],
    ) -> None:
        self._own, self._line, self._place, self._judged = own, line, place, judged
        self.here: MysqlPosition | None = None
        """The position up to which the last range was read; None if it was interrupted."""
        self._apart = False
        """Whether the last range was read over the lane's own stream."""

    def read(self, after: MysqlPosition, up_to: MysqlPosition) -> Iterator[Ranged]:
        at = after
        while not there(at, up_to):
            answer = self._line.ask(Asked(*self._place(), at, up_to))
            if answer is not None and answer.waits:
                continue
            if answer is None or same(answer.end, at):
                yield from self._read_own(at, up_to)
                return
            self._own.close()
            self._apart = False
            end, reached, given = answer.end, at, 0
            while answer is not None:
                for item in (one for piece in answer.pieces for one in piece.items(at, end)):
                    if not isinstance(item, TableRows) and is_end(item):
                        reached, given = item.position, 0
                        self.here = reached
                    else:
                        self.here = None
                    own = self._judged(item) if isinstance(item, Statement) else item
                    if own is not None:
                        given += not isinstance(own, End)
                        yield own
                number = answer.number
                if number is None:
                    break
                answer = self._line.ask(Asked(*self._place(), at, end, number))
                if answer is not None and not same(answer.end, end):
                    answer = None
            else:  # the feed has discarded the rest, in the middle of a transaction of which some rows were passed on
                for item in self._read_own(reached, up_to):
                    if isinstance(item, End):
                        if given <= 0:  # otherwise the end of a transaction before that one, without rows of the table
                            yield item
                        continue
                    given -= 1
                    if given < 0:
                        yield item
                return
            at = self.here = end
        self.here = at

    def _read_own(self, after: MysqlPosition, up_to: MysqlPosition) -> Iterator[Ranged]:
        self.here, self._apart = None, True
        yield from self._own.read(after, up_to)
        self.here = self._own.here
        if self._line.is_connected:  # the feed supplies the next range, unless this one was left before its end
            self._own.close()

    def stop(self) -> MysqlPosition:
        """End the range at the end of the transaction that was read last, and return that position."""
        if self._apart:
            self.here = self._own.stop()
        assert self.here is not None
        return self.here

    def check(self, after: MysqlPosition) -> None:
        answer = self._line.ask(Asked(*self._place(), after, after))
        if answer is None or not same(answer.end, after) or answer.end.born != after.born:
            self._own.check(after)
        else:
            self._own.close()
        self.here = after

    def close(self) -> None:
        self._own.close()
        self.here = None
