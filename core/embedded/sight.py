"""What sessions of the stand-in see of each other: coordinators, filtered lists, snapshots. Controls of a moment.

Next door: `standin/9_sight.sql` says what each means, `core.embedded.facts` sets what catalogs tell.
"""

from __future__ import annotations

from core.embedded.warehouse import STATISTICS, USER, Warehouse

SECOND = "cn_5002"
THROUGH_SECOND = f"@{SECOND}"
"""The end of the application_name of a session that counts as connected through the second coordinator."""


def second_coordinator(warehouse: Warehouse) -> None:
    """Let the cluster have a second coordinator, at the same address."""
    _run(warehouse, f"INSERT INTO dws.coordinator VALUES ('{SECOND}', 688777012)")


def activity_by_user(warehouse: Warehouse, filtered: bool = True) -> None:
    """Let pg_stat_activity show an ordinary login its own sessions only, without a word, as a DWS does."""
    _run(warehouse, f"UPDATE dws.sight SET by_user = {filtered}")


def snapshots_apart(warehouse: Warehouse, apart: bool = True) -> None:
    """Let a coordinator's snapshot leave out the transactions of other coordinators."""
    _run(warehouse, f"UPDATE dws.sight SET snapshots_apart = {apart}")


def sees_statistics(warehouse: Warehouse, granted: bool = True) -> None:
    """Give the ordinary login the preset role for statistics, or take it away: the whole server has one of each."""
    _run(warehouse, f"GRANT {STATISTICS} TO {USER}" if granted else f"REVOKE {STATISTICS} FROM {USER}")


def _run(warehouse: Warehouse, statement: str) -> None:
    with warehouse.control() as cursor:
        cursor.execute(statement)
