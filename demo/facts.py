"""The stand-in's answers about itself and its tables, for tests of rejections; the answers of DWS differ.

The first functions change the contents of catalogs but not the stand-in's behavior; the others change which other
sessions a session sees.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.demo.warehouse import STATISTICS, USER, Warehouse

SECOND = "cn_5002"
THROUGH_SECOND = f"@{SECOND}"
"""Suffix of the application_name of a session that counts as connected through the second coordinator."""


def say(warehouse: Warehouse, name: str, value: str | None) -> None:
    """Make the server return `value` for a setting (`gtm_option`), or for `version`; None restores its own answer."""
    _run(warehouse, "DELETE FROM dws.setting WHERE name = %s", (name,))
    if value is not None:
        _run(warehouse, "INSERT INTO dws.setting VALUES (%s, %s)", (name, value))


def distribute(warehouse: Warehouse, table: str, locator: str) -> None:
    """Make the catalog report how a table is distributed: H hash, R replicated, N round robin."""
    _run(
        warehouse,
        "INSERT INTO dws.locator VALUES (%s::regclass, %s) ON CONFLICT (rel) DO UPDATE SET kind = EXCLUDED.kind",
        (table, locator),
    )


def options(warehouse: Warehouse, table: str, given: Sequence[str]) -> None:
    """Set a table's storage options ("enable_hstore=on") in the catalog, because PostgreSQL itself would
    reject them.
    """
    _run(warehouse, "UPDATE pg_class SET reloptions = %s WHERE oid = %s::regclass", (list(given), table))


def redact(warehouse: Warehouse, table: str, enable: bool = True) -> None:
    """Make the catalog report that a table has a redaction policy, on or off; it masks nothing."""
    _run(warehouse, "INSERT INTO dws.redaction VALUES (%s::regclass, 'mask_it', %s)", (table, enable))


def without(warehouse: Warehouse, function: str) -> None:
    """Drop a binlog function, to simulate a kernel without it."""
    _run(
        warehouse,
        "DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname = "
        + f"'{function}' LOOP EXECUTE 'DROP FUNCTION ' || f || ' CASCADE'; END LOOP; END $$",
    )


# -- visibility between sessions: coordinators, filtered lists, snapshots ----------------------------------------------


def second_coordinator(warehouse: Warehouse) -> None:
    """Add a second coordinator to the cluster, at the same address."""
    _run(warehouse, f"INSERT INTO dws.coordinator VALUES ('{SECOND}', 688777012)")


def activity_by_user(warehouse: Warehouse, filtered: bool = True) -> None:
    """Make pg_stat_activity silently show an ordinary login only its own sessions, as DWS does."""
    _run(warehouse, f"UPDATE dws.sight SET by_user = {filtered}")


def snapshots_apart(warehouse: Warehouse, apart: bool = True) -> None:
    """Make a coordinator's snapshot exclude the transactions of other coordinators."""
    _run(warehouse, f"UPDATE dws.sight SET snapshots_apart = {apart}")


def status_takes_no_number(warehouse: Warehouse) -> None:
    """Make status queries use no transaction ID: the xmin of an idle cluster then advances only if a session requests
    an ID.
    """
    _run(warehouse, "UPDATE dws.sight SET status_idle = true")


def sees_statistics(warehouse: Warehouse, granted: bool = True) -> None:
    """Grant the preset role for statistics to the server's only ordinary login, or revoke it."""
    _run(warehouse, f"GRANT {STATISTICS} TO {USER}" if granted else f"REVOKE {STATISTICS} FROM {USER}")


def _run(warehouse: Warehouse, statement: str, parameters: tuple[object, ...] = ()) -> None:
    with warehouse.control() as cursor:
        cursor.execute(statement, parameters or None)
