"""Logins with exactly the rights that `doctor` prints, at both ends of a mirror; nothing is left to PUBLIC."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.drivers import pg
from slotkeeper.core.services import doctor
from slotkeeper.demo.postgres import write_password
from slotkeeper.demo.warehouse import READERS
from tests.support import polling
from tests.support.mirror import Mirror

_numbers = itertools.count(1)
_CLOSED = ("REVOKE ALL ON DATABASE {} FROM PUBLIC", "REVOKE ALL ON SCHEMA public FROM PUBLIC")
_GRANT = re.compile(r"GRANT (?P<rights>[A-Z, ]+) ON (?P<what>.+) TO (?P<user>.+);")


@dataclass(frozen=True)
class Least:
    """A mirror whose logins have the printed rights, and the configuration that says the same as its job."""

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
        """(source or sink, the right, the statement that takes it away) of every single right that is printed."""
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
    """Close both databases, make logins without a right, and give them what is printed for the mirror's job.

    `more` are lines of the job's table; without `create` the channel does not say create_target.
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
