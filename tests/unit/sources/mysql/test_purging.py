"""The age at which a server purges its binlogs, by the variables that its version has."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.ttl import LONGEST
from slotkeeper.core.sources.mysql import faults
from slotkeeper.core.sources.mysql.retention import age_of

SECONDS, DAYS = "binlog_expire_logs_seconds", "expire_logs_days"


@pytest.mark.parametrize(
    ("variables", "age"),
    [
        ({SECONDS: "2592000", DAYS: "0"}, (2_592_000, SECONDS)),
        ({SECONDS: "0", DAYS: "3"}, (259_200, DAYS)),
        ({SECONDS: "0", DAYS: "0"}, (0, SECONDS)),
        ({SECONDS: "864000", DAYS: "10.000000"}, (864_000, SECONDS)),
        ({SECONDS: "0"}, (0, SECONDS)),
        ({DAYS: "10"}, (864_000, DAYS)),
        ({SECONDS: "60", "binlog_expire_logs_auto_purge": "OFF"}, (0, "binlog_expire_logs_auto_purge")),
        ({SECONDS: "60", "binlog_expire_logs_auto_purge": "ON"}, (60, SECONDS)),
        ({}, (None, SECONDS)),
        ({SECONDS: "²", DAYS: "3"}, (259_200, DAYS)),
        ({SECONDS: "9" * 18}, (LONGEST, SECONDS)),
        ({DAYS: "inf"}, (LONGEST, DAYS)),
        ({DAYS: "nan"}, (None, SECONDS)),
    ],
    ids=[
        "mysql-8",
        "mysql-8-by-days",
        "never",
        "mariadb-10.6",
        "mysql-8.4",
        "mysql-5.7",
        "not-by-itself",
        "by-itself",
        "none",
        "no-number",
        "beyond-all-dates",
        "infinite",
        "not-a-number",
    ],
)
def test_the_variable_that_counts_says_after_how_long(variables: dict[str, str], age: tuple[int | None, str]) -> None:
    assert age_of(variables) == age


class SaidError(Exception):
    """Represents a driver's error."""


@pytest.fixture
def as_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotkeeper.core.drivers.my.DriverError", SaidError)


@pytest.mark.usefixtures("as_driver")
def test_a_missing_right_is_the_grant_that_the_server_names_and_no_statement_where_its_account_is_unknown() -> None:
    denied = SaidError(1142, "SELECT command denied to user 'etl'@'h' for table `ods`.`t`")
    hint = faults.classify(denied, "shop", "'etl'@'10.%'").hint
    assert hint == "As an administrator of source shop, run `GRANT SELECT ON ods.t TO 'etl'@'10.%';`."
    unknown = faults.classify(denied, "shop", f"'etl'@'{faults.NO_HOST}'").hint
    assert unknown == "As an administrator of source shop, grant SELECT ON ods.t to the account of 'etl'."
    replica = faults.as_replica(SaidError(1045, "Access denied"), "shop", "'etl'@'h'")
    assert "`GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'etl'@'h';`" in replica.hint


@pytest.mark.usefixtures("as_driver")
def test_a_refused_login_names_tls_where_it_was_without_and_only_as_far_as_the_server_says() -> None:
    denied = SaidError(1045, "Access denied for user 'etl'@'h' (using password: YES)")
    assert "REQUIRE SSL" in faults.classify(denied, "shop", "u", in_clear=True).hint
    assert "REQUIRE SSL" not in faults.classify(denied, "shop", "u").hint
    needs = SaidError(3159, "Connections using insecure transport are prohibited")
    assert "the server requires TLS" in faults.classify(needs, "shop", "u").hint
