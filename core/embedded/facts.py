"""What the stand-in says about itself and its tables, where a DWS would have its own answer: for tests of refusals.

Nothing here changes what the stand-in does, only what its catalogs tell. Next door: `core.embedded.warehouse`
installs it, `standin/7_catalog.sql` holds the catalogs.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.embedded.warehouse import Warehouse


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
        None,
    )


def _run(warehouse: Warehouse, statement: str, parameters: tuple[object, ...] | None) -> None:
    connection = warehouse.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
    finally:
        connection.close()
