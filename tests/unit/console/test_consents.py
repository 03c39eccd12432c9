"""The consent to changes of columns that remove values, given by `jobs start --confirm-rows`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.console.commands.job_verbs import consent
from slotkeeper.core.domain.access import AccessRules, Account
from slotkeeper.core.domain.consent import Consent
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch import access
from slotkeeper.core.launch.access import Access
from slotkeeper.core.state.files import StoredConsents
from slotkeeper.core.state.sqlite import Store

JOB, TABLE, OTHER = "orders_rt", "ods.t", "ods.o"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(access, "SYSTEM", tmp_path / "none")
    with Store.open(tmp_path / "state") as made:
        yield made


def asked(store: Store, table: str, rows: int) -> None:
    StoredConsents(store.folder, JOB).keep(Consent(f"shape-{table[-1]}", JOB, table, "s", "a loss", False, rows=rows))


def confirmed(store: Store) -> list[str]:
    known = StoredConsents(store.folder, JOB)
    return sorted(one.table for one in known.known() if known.given(one.plan))


def as_account(store: Store, account: Account, second: bool = True) -> Access:
    made = Access(AccessRules("c.toml", second_account=True) if second else None, store.folder.path, {}, "c.toml")
    vars(made)["account"] = account
    return made


def test_a_number_that_several_tables_await_needs_the_table(store: Store) -> None:
    asked(store, TABLE, 5)
    asked(store, OTHER, 5)
    plain = as_account(store, Account(1, "ann"), second=False)
    with pytest.raises(Refused, match=r"2 tables await the confirmation of 5 rows: ods\.o, ods\.t") as refused:
        consent(store, plain, JOB, "", JOB, "INC-1", 5)
    assert "--table ods.o" in refused.value.hint and not confirmed(store)
    consent(store, plain, JOB, TABLE, JOB, "INC-1", 5)
    assert confirmed(store) == [TABLE]


def test_an_approval_of_another_number_of_rows_does_not_count(store: Store) -> None:
    ann, bob = as_account(store, Account(1, "ann")), as_account(store, Account(2, "bob"))

    def request() -> str:
        with pytest.raises(Refused, match="needs the approval of a second account") as refused:
            consent(store, ann, JOB, "", JOB, "INC-1", StoredConsents(store.folder, JOB).known()[0].rows)
        return refused.value.hint.split("slots approve ")[1].split()[0]

    asked(store, TABLE, 5)
    bob.approve(request(), "INC-1")
    asked(store, TABLE, 500)
    second = request()
    assert not confirmed(store)
    bob.approve(second, "INC-1")
    consent(store, ann, JOB, "", JOB, "INC-1", 500)
    assert confirmed(store) == [TABLE]
