"""A MariaDB stream under kills: connections cut 20 times, the server crashed 5 times, each time from the last end."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.sources.mysql.position import MysqlPosition, parse_gtids
from slotkeeper.core.sources.mysql.rows import Decoder, columns_of
from slotkeeper.core.sources.mysql.stream import Reading, Stream
from slotkeeper.core.sources.mysql.tables import read_charsets
from slotkeeper.core.sources.mysql.transactions import End, Item, TableRows
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria as support

pytestmark = pytest.mark.chaos

ROWS, LOT = 40_000, 50


@pytest.mark.parametrize("by_gtid", [False, True])
def test_kills_and_crashes_lose_and_double_nothing(seed: int, by_gtid: bool) -> None:
    chance = random.Random(f"{seed}/{by_gtid}")
    server = support.begin({"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"})
    try:
        session = support.log_in(server)
        session.rows("CREATE DATABASE k")
        session.rows("CREATE TABLE k.t (id INT PRIMARY KEY, v VARCHAR(40))")
        file, offset = session.rows("SHOW MASTER STATUS")[0][:2]
        gtids = parse_gtids(str(session.rows("SELECT @@gtid_binlog_pos")[0][0]))
        position, found, number = MysqlPosition(str(file), int(offset), gtids), list[int](), 0
        cuts = ["kill"] * 20 + ["crash"] * 5
        chance.shuffle(cuts)
        for cut in [*cuts, ""]:
            for _ in range(ROWS // LOT // len(cuts)):
                rows = ", ".join(f"({number + n}, 'v')" for n in range(LOT))
                session.rows(f"INSERT INTO k.t VALUES {rows}")
                number += LOT
            position = _read(server, session, position, by_gtid, found, cut, chance)
            if cut == "crash":
                session.close()
                server.restart(crash=True)
                session = support.log_in(server)
        assert found == list(range(number))
    finally:
        support.end(server)


def _read(
    server: MariaServer,
    session: my.Session,
    position: MysqlPosition,
    by_gtid: bool,
    found: list[int],
    cut: str,
    chance: random.Random,
) -> MysqlPosition:
    """Read on until the end, or until the cut; rows count with their transaction's end."""
    reading = Reading(my.Replica(77_000, "", 1.0), [("k", "t")], by_gtid)
    stream = Stream(lambda: support.log_in(server), "maria", "root", position, reading)
    pending: list[Item] = []
    cut_at = chance.randrange(1, 40) if cut else -1
    with suppress(Unreachable):
        for count, item in enumerate(stream.items(blocking=False)):
            pending.append(item)
            if isinstance(item, End):
                found += [row[0] for row in _rows(session, pending)]
                pending, position = [], item.position
            if count == cut_at and cut == "kill":
                dumps = session.rows("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")
                for (one,) in dumps:
                    with suppress(my.DriverError):
                        session.rows(f"KILL {one}")
            if count == cut_at and cut == "crash":
                stream.close()
                return position
    return position


def _rows(session: my.Session, items: list[Item]) -> list[tuple[int, str]]:
    decoders: dict[bytes, Decoder] = {}
    found = []
    for item in items:
        if isinstance(item, TableRows):
            if item.table.layout not in decoders:
                columns = columns_of(item.table, None, read_charsets(session))
                decoders[item.table.layout] = Decoder(columns)
            found += list(decoders[item.table.layout].changes(item.rows).after)
    return found
