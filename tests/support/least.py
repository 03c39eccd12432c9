"""Logins with exactly the privileges that `doctor` prints, at both ends of a mirror; PUBLIC has none.

`Rotation` gives both logins new passwords while the job runs.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.drivers import pg
from slotkeeper.core.services import doctor
from slotkeeper.demo.postgres import write_password
from slotkeeper.demo.warehouse import READERS
from tests.support import polling
from tests.support.mirror import Mirror
from tests.support.waiting import until

_numbers = itertools.count(1)
_CLOSED = ("REVOKE ALL ON DATABASE {} FROM PUBLIC", "REVOKE ALL ON SCHEMA public FROM PUBLIC")
_GRANT = re.compile(r"GRANT (?P<rights>[A-Z, ]+) ON (?P<what>.+) TO (?P<user>.+);")


@dataclass(frozen=True)
class Least:
    """A mirror whose logins have the printed privileges, and a configuration with the same job."""

    mirror: Mirror
    config: Path

    @property
    def loaded(self) -> Loaded:
        return load(self.config, {})

    def printed(self) -> list[tuple[str, str]]:
        """(source or sink, statement) of the script."""
        return [
            (place.split()[0], one) for place, script in doctor.grants(self.loaded) for one in script if one[:2] != "--"
        ]

    def run(self, side: str, statement: str) -> None:
        """Run a statement at one end, as its administrator."""
        connect = self.mirror.warehouse.connect if side == "source" else self.mirror.sink
        run(connect, statement)

    def rights(self) -> Iterator[tuple[str, str, str]]:
        """(source or sink, the privilege, the statement that revokes it) of every printed privilege."""
        for side, statement in self.printed():
            found = _GRANT.fullmatch(statement)
            for right in found["rights"].split(", ") if found else ():
                what = f"{right} ON {found['what']}"  # type: ignore[index]
                yield side, what, f"REVOKE {what} FROM {found['user']}"  # type: ignore[index]


def run(connect: Callable[[], pg.Connection], *statements: str) -> None:
    with closing(connect()) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def least(mirror: Mirror, folder: Path, more: Sequence[str] = (), create: bool = True) -> Least:
    """Revoke everything from PUBLIC, create logins without privileges, and grant what is printed for the mirror's job.

    `more` are lines of the job's table; without `create`, the channel does not set create_target.
    """
    job = mirror.job
    source = _login(mirror.warehouse.connect, job.source, folder, "reader")
    sink = _login(mirror.sink, job.sink, folder, "writer")
    # the stand-in's functions read its tables as their caller
    run(mirror.warehouse.connect, f"GRANT {READERS} TO {source.user}")
    channel = replace(job.channel, create_target=create)
    mirror.job = replace(job, source=source, sink=sink, channels=(channel,))
    text = polling.job(job.name, job.slot, channel.source_table, channel.target, more)
    text = text if create else text.replace("create_target = true\n", "")
    made = Least(mirror, polling.config(folder, source, sink, text))
    for side, statement in made.printed():
        made.run(side, statement)
    return made


def _login(connect: Callable[[], pg.Connection], endpoint: Endpoint, folder: Path, word: str) -> Endpoint:
    user = f"{word}_{next(_numbers)}"
    file = folder / f"{user}.password"
    password = write_password(file)
    database = f'"{endpoint.database}"'
    run(connect, *(one.format(database) for one in _CLOSED), f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
    return replace(endpoint, user=user, password=SecretRef("file", str(file)))


WAYS = ("file", "command", "env")
LENGTH = 1_200
"""The number of characters of a password, as in the tokens of cloud services."""


@dataclass
class Rotation:
    """`way` is the kind of the references. A variable is read at a start, so each rotation restarts the job."""

    mirror: Mirror
    way: str
    folder: Path
    patch: pytest.MonkeyPatch
    chance: random.Random
    seconds: list[float] = field(default_factory=list)
    """Seconds from the start of each rotation until a row that was then written had arrived at the sink."""
    waited_out: list[bool] = field(default_factory=list)
    """Whether a session ended while the source registered a position by it: its lane waits until no call can land."""
    number: int = 0
    begun: float = 0.0

    def prepare(self) -> Rotation:
        """Make the two logins with their references; the job is not started yet."""
        made = least(self.mirror, self.folder)
        job = made.mirror.job
        self.mirror.job = replace(job, source=self._referred(job.source), sink=self._referred(job.sink))
        return self

    def rotate(self, behind: float = 0.0) -> None:
        """Both passwords change and all sessions of both users end; the references follow `behind` seconds later."""
        self.number += 1
        self.begun = time.monotonic()
        job = self.mirror.job
        ends = [(self.mirror.warehouse.connect, job.source), (self.mirror.sink, job.sink)]
        new = {end.user: self._password() for _, end in ends}
        if self.way == "env":
            self.mirror.stop()
        first = behind == 0.0 and self.chance.random() < 0.5
        if first:
            self._refer(new)
        for connect, end in ends:
            ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{end.user}'"
            run(connect, f"ALTER ROLE {end.user} PASSWORD '{new[end.user]}'", ended)
        if behind:
            gone = time.monotonic() + behind
            until(lambda: time.monotonic() >= gone, behind + 10, "the reference's turn")
        if not first:
            self._refer(new)
        if self.way == "env":
            self.mirror.start()

    def followed(self, write: str, limit: float = 60) -> None:
        """Write a row at the source and wait until it is at the sink."""
        self.mirror.source(write)
        self.mirror.wait_equal(limit)
        self.seconds.append(time.monotonic() - self.begun)
        self.waited_out.append(any(lane.not_before > self.begun for lane in self.mirror.heard.now.values()))

    def runs(self, user: str) -> int:
        log = self.folder / f"{user}.runs"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def _password(self) -> str:
        return "".join(self.chance.choices("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=LENGTH))

    def _referred(self, end: Endpoint) -> Endpoint:
        file = Path(end.password.ref)
        if self.way == "env":
            self.patch.setenv(self._variable(end.user), file.read_text().removesuffix("\n"))
            return replace(end, password=SecretRef("env", self._variable(end.user)))
        if self.way == "file":
            return end
        script = self.folder / f"{end.user}.sh"
        script.write_text(f"#!/bin/sh\necho run >> {self.folder / end.user}.runs\nexec cat {file}\n")
        script.chmod(0o700)
        return replace(end, password=SecretRef("command", str(script)))

    def _variable(self, user: str) -> str:
        return f"SLOTKEEPER_TEST_{user.upper()}"

    def _refer(self, new: dict[str, str]) -> None:
        for user, plain in new.items():
            if self.way == "env":
                self.patch.setenv(self._variable(user), plain)
            else:
                (self.folder / f"{user}.password").write_text(plain)
