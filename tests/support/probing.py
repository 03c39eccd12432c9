"""The questions of `doctor --probe` to a warehouse of a test, and the expected leftovers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from slotkeeper.core.domain.probing import Answer
from slotkeeper.core.sources.dws.probe.run import ask_all
from slotkeeper.core.sources.dws.probe.scratch import Scratch
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.demo.switches import Switches, all_values
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import run

SCHEMA = "probe"
SCRATCH = "slotkeeper_probe_contract"


def grant(warehouse: Warehouse, schema: str = SCHEMA) -> None:
    """A schema in which the ordinary role may make tables."""
    run(warehouse, f"CREATE SCHEMA {schema}", f"GRANT USAGE, CREATE ON SCHEMA {schema} TO etl")


def interrogate(warehouse: Warehouse, progress: Callable[[str], None] = lambda said: None) -> dict[str, Answer]:
    """Return every answer by its question's name, as the ordinary role gets it, and drop the scratch tables."""
    password = warehouse.etl_password_file.read_text(encoding="utf-8").strip()

    def opened() -> DwsSession:
        return DwsSession(warehouse.endpoint(), password, "slotkeeper-test/probe")

    scratch, session = Scratch(SCHEMA, SCRATCH, stand_in=True), opened()
    try:
        answers = ask_all(session, scratch, progress)
    finally:
        session.close()
        left = scratch.drop_all(opened)
    assert not left, left
    return {one.question.name: one for one in answers}


def flipped(*names: str) -> Switches:
    """The default switches with some of them inverted."""
    return Switches.of((name, value != (name in names)) for name, value in Switches().pairs())


def drawn(seed: int) -> Switches:
    """Random switches; the seed is printed."""
    chance = random.Random(seed)
    switches = Switches.of((name, chance.choice(values)) for name, values in all_values().items())
    print(f"seed {seed}: {switches.text()}")
    return switches


def leftovers(warehouse: Warehouse) -> list[Any]:
    """Return the leftovers of a probe: tables, their objects in the stand-in, slots."""
    connection = warehouse.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT c.relname FROM pg_class c WHERE c.relname LIKE 'slotkeeper\\_probe%' "
                "UNION ALL SELECT n.nspname FROM pg_namespace n WHERE n.nspname LIKE 'dws\\_rel\\_%' "
                "AND NOT EXISTS (SELECT FROM dws.tab t WHERE n.nspname = 'dws_rel_' || t.rel) "
                "UNION ALL SELECT s.slot_name FROM dws.slot s "
                "WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = s.rel) "
                "UNION ALL SELECT s.slot_name FROM dws.slot s WHERE s.slot_name = 'probe'"
            )
            return cursor.fetchall()
    finally:
        connection.close()
