"""A mirror whose two logins get new passwords while it runs; their references say the new ones before or after."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from tests.support.least import least, run
from tests.support.mirror import Mirror
from tests.support.waiting import until

WAYS = ("file", "command", "env")
LENGTH = 1_200
"""Characters of a password: as long as the tokens that cloud services hand out."""


@dataclass
class Rotation:
    """`way` is how the references are written. A variable is read at a start, so each rotation restarts the job."""

    mirror: Mirror
    way: str
    folder: Path
    patch: pytest.MonkeyPatch
    chance: random.Random
    seconds: list[float] = field(default_factory=list)
    """From the begin of each rotation, with what it takes itself, until a row that was written then was at the sink."""
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
        """How often a user's command ran."""
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
