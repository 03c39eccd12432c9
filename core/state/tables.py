"""What is wanted of single tables of a job, by source table."""

from __future__ import annotations

from slotkeeper.core.domain.job import TableWanted, WantedState
from slotkeeper.core.state.sqlite import Store


def wanted(store: Store, job: str) -> dict[str, TableWanted]:
    """What is wanted of the job's tables; a table that is not named goes as the job does."""
    rows = store.read("SELECT source_table, wanted, turn FROM tables_wanted WHERE job = ?", job)
    return {row["source_table"]: TableWanted(WantedState(row["wanted"]), row["turn"]) for row in rows}


def want(store: Store, job: str, table: str, state: WantedState, anew: bool = False) -> TableWanted:
    """Want a state of a table from now on; `anew`: it is started once more, also where it runs or has failed."""
    with store.write() as sql:
        sql.execute(
            "INSERT INTO tables_wanted (job, source_table, wanted, turn) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (job, source_table) DO UPDATE SET wanted = excluded.wanted, turn = turn + excluded.turn",
            (job, table, state.value, int(anew)),
        )
    return wanted(store, job)[table]


def forget(store: Store, job: str) -> None:
    """All tables of a job go as it does, from now on."""
    with store.write() as sql:
        sql.execute("DELETE FROM tables_wanted WHERE job = ?", (job,))
