"""The stand-in's facts about itself and its tables, for tests of rejections; DWS has its own.

First the catalogs' facts, which change no behaviour, then what sessions see of each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.demo.warehouse import STATISTICS, USER, Warehouse

SECOND = "cn_5002"
THROUGH_SECOND = f"@{SECOND}"
"""Suffix of the application_name of a session that counts as connected through the second coordinator."""


def say(warehouse: Warehouse, name: str, value: str | None) -> None:
    """Let the server answer `value` for a setting (`gtm_option`), or for `version`; None: its own answer again."""
    _run(warehouse, "DELETE FROM dws.setting WHERE name = %s", (name,))
    if value is not None:
        _run(warehouse, "INSERT INTO dws.setting VALUES (%s, %s)", (name, value))


def distribute(warehouse: Warehouse, table: str, locator: str) -> None:
    """Let the catalog say how a table is distributed: H hash, R replicated, N round robin."""
    _run(
        warehouse,
        "INSERT INTO dws.locator VALUES (%s::regclass, %s) ON CONFLICT (rel) DO UPDATE SET kind = EXCLUDED.kind",
        (table, locator),
    )


def options(warehouse: Warehouse, table: str, given: Sequence[str]) -> None:
    """Write a table's storage options ("enable_hstore=on") as they are, which PostgreSQL itself would refuse."""
    _run(warehouse, "UPDATE pg_class SET reloptions = %s WHERE oid = %s::regclass", (list(given), table))


def redact(warehouse: Warehouse, table: str, enable: bool = True) -> None:
    """Let the catalog say that a table has a redaction policy, on or off; nothing is masked by it."""
    _run(warehouse, "INSERT INTO dws.redaction VALUES (%s::regclass, 'mask_it', %s)", (table, enable))


def without(warehouse: Warehouse, function: str) -> None:
    """Take a binlog function away, as on a kernel that has none of this name."""
    _run(
        warehouse,
        "DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname = "
        + f"'{function}' LOOP EXECUTE 'DROP FUNCTION ' || f || ' CASCADE'; END LOOP; END $$",
    )


# -- what sessions see of each other: coordinators, filtered lists, snapshots -----------------------------------------


def second_coordinator(warehouse: Warehouse) -> None:
    """Let the cluster have a second coordinator, at the same address."""
    _run(warehouse, f"INSERT INTO dws.coordinator VALUES ('{SECOND}', 688777012)")


def activity_by_user(warehouse: Warehouse, filtered: bool = True) -> None:
    """Let pg_stat_activity silently show an ordinary login its own sessions only, as DWS does."""
    _run(warehouse, f"UPDATE dws.sight SET by_user = {filtered}")


def snapshots_apart(warehouse: Warehouse, apart: bool = True) -> None:
    """Let a coordinator's snapshot leave out the transactions of other coordinators."""
    _run(warehouse, f"UPDATE dws.sight SET snapshots_apart = {apart}")


def status_takes_no_number(warehouse: Warehouse) -> None:
    """Let a status take no transaction number: then nothing moves an idle cluster's xmin but who asks for a number."""
    _run(warehouse, "UPDATE dws.sight SET status_idle = true")


def sees_statistics(warehouse: Warehouse, granted: bool = True) -> None:
    """Give the ordinary login the preset role for statistics, or take it away: the whole server has one of each."""
    _run(warehouse, f"GRANT {STATISTICS} TO {USER}" if granted else f"REVOKE {STATISTICS} FROM {USER}")


def _run(warehouse: Warehouse, statement: str, parameters: tuple[object, ...] = ()) -> None:
    with warehouse.control() as cursor:
        cursor.execute(statement, parameters or None)
