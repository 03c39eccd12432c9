"""The meaning and remedy of a server's error: by its code before its text, with the names of this job."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from slotkeeper.core.judgement.servers import CAUSES, UNKNOWN, Message, Refusal, cause_of, explain, filled

SINK = Refusal(
    "?", side="sink", kind="postgres", server="sink mart", user="etl", database="mart", address="db1:5432",
    job="orders rt", table="mart.Orders", own_schema="public",
)  # fmt: skip


def told(text: str, code: str = "", **more: str) -> str:
    return explain(replace(SINK, text=text, code=code, **more)).action  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "text", "cause"),
    [
        ("42501", "permission denied for table orders", "SK-1101"),
        ("", "a replica's privilege is missing: Access denied for user 'etl'@'h' (using password: YES)", "SK-1101"),
        ("28P01", 'password authentication failed for user "etl"', "SK-1102"),
        ("", 'FATAL:  password authentication failed for user "etl"', "SK-1102"),
        ("", "FATAL:  Invalid username/password,login denied.", "SK-1102"),
        ("1045", "Access denied for user 'etl'@'h' (using password: YES)", "SK-1102"),
        ("", "FATAL:  The account has been locked.", "SK-1103"),
        ("28000", 'no pg_hba.conf entry for host "10.0.0.9"', "SK-1104"),
        ("28000", 'role "etl" does not exist', "SK-1105"),
        ("53100", "could not extend file: No space left on device", "SK-1201"),
        ("53200", "out of memory", "SK-1202"),
        ("53300", "sorry, too many clients already", "SK-1203"),
        ("08006", "FATAL:  sorry, too many clients already", "SK-1203"),
        ("1040", "Too many connections", "SK-1203"),
        ("", "current running txns on db 1 is 100, larger than limit 100", "SK-1205"),
        ("57P01", "terminating connection due to administrator command", "SK-1301"),
        ("57P02", "terminating connection because of crash of another server process", "SK-1302"),
        ("57P03", "the database system is starting up", "SK-1303"),
        ("08006", "FATAL:  the database system is shutting down", "SK-1303"),
        ("25006", "cannot execute INSERT in a read-only transaction", "SK-1304"),
        ("1290", "The MariaDB server is running with the --read-only option", "SK-1304"),
        ("55P03", "canceling statement due to lock timeout", "SK-1401"),
        ("57014", "canceling statement due to statement timeout", "SK-1404"),
        ("", "a step did not end in time and was cancelled", "SK-1406"),
        ("40P01", "deadlock detected", "SK-1402"),
        ("40001", "could not serialize access", "SK-1403"),
        ("23505", "duplicate key value violates unique constraint", "SK-1501"),
        ("22001", "value too long for type character varying(3)", "SK-1502"),
        ("42P01", 'relation "mart.orders" does not exist', "SK-1601"),
        ("42703", 'column "x" does not exist', "SK-1602"),
        ("3D000", 'database "mart" does not exist', "SK-1603"),
        ("42883", "function pgxc_x() does not exist", "SK-1604"),
        ("08006", "connection to server at h failed: Connection refused", "SK-1701"),
        ("08006", 'could not translate host name "h" to address: Name or service not known', "SK-1702"),
        ("08006", "connection failed: No route to host", "SK-1703"),
        ("08006", "timeout expired", "SK-1704"),
        ("", "does not answer", "SK-1704"),
        ("08006", "server closed the connection unexpectedly", "SK-1705"),
        ("2013", "Lost connection to MySQL server during query", "SK-1705"),
        ("08006", "SSL error: certificate verify failed", "SK-1706"),
        ("08006", "a sentence that no line knows", "SK-1707"),
        ("1236", "something ended the dump", "SK-1803"),
        ("1236", "A slave with the same server_uuid/server_id as this slave has connected", "SK-1801"),
        ("1236", "Could not find first log file name in binary log index file", "SK-1802"),
        ("1227", "Access denied; you need (at least one of) the REPLICATION SLAVE privilege(s)", "SK-1101"),
        ("XX000", "cache lookup failed", "SK-1999"),
        ("", "what no line knows", "SK-1999"),
    ],
)
def test_a_code_decides_before_words_and_words_where_a_code_says_little(code: str, text: str, cause: str) -> None:
    assert cause_of(code, text).code == cause


def test_a_missing_right_is_a_grant_for_the_object_that_the_server_names() -> None:
    grants = {
        "permission denied for table Orders": 'GRANT SELECT, INSERT, UPDATE, DELETE ON mart."Orders" TO etl;',
        "permission denied for schema mart": "GRANT USAGE ON SCHEMA mart TO etl;",
        "permission denied for database mart": "GRANT CONNECT ON DATABASE mart TO etl;",
        "permission denied for table slotkeeper_progress":
            "GRANT SELECT, INSERT, UPDATE, DELETE ON public.slotkeeper_progress TO etl;",
        "permission denied for table slotkeeper_audit": "GRANT SELECT, INSERT ON public.slotkeeper_audit TO etl;",
    }  # fmt: skip
    for text, grant in grants.items():
        assert told(text, "42501") == f"As an administrator of sink mart, run `{grant}`."
    assert "`slotkeeper doctor`" in told("permission denied for table somebody_elses", "42501")
    source = {"side": "source", "kind": "mysql", "server": "source shop", "table": "ods.t"}
    denied = "SELECT command denied to user 'etl'@'h' for table `ods`.`t`"
    assert "grant SELECT ON ods.t to the account of etl; `slotkeeper doctor`" in told(denied, "1142", **source)
    replica = "Access denied; you need (at least one of) the REPLICATION SLAVE privilege(s) for this operation"
    assert "grant REPLICATION SLAVE, REPLICATION CLIENT ON *.* to the account" in told(replica, "1227", **source)


def test_a_rejected_password_names_where_it_comes_from() -> None:
    refused = Refusal("password authentication failed", "28P01", user="etl", secret=lambda: "password_file /etc/pw")
    assert explain(refused).action == "Write the current password of etl to password_file /etc/pw."


def test_a_constraint_of_the_target_alone_is_dropped_by_its_name_and_a_key_never() -> None:
    check = 'row id = 7: new row for relation "Orders" violates check constraint "Not late"'
    drop = 'ALTER TABLE mart."Orders" DROP CONSTRAINT "Not late";'
    assert told(check, "23514").startswith(f"As an administrator of sink mart, run `{drop}`, or set on_bad_row")
    refers = 'insert or update on table "Orders" violates foreign key constraint "of_x"'
    assert "DROP CONSTRAINT of_x;" in told(refers, "23503")
    others = 'update or delete on table "Orders" violates foreign key constraint "of_y" on table "items"'
    for text in (others, 'duplicate key value violates unique constraint "orders_pkey"'):
        assert told(text, "23503").startswith(
            'Alter mart.Orders so that the row fits, or set on_bad_row = "quarantine"'
        )
    assert "in [jobs.'orders rt'.sink_options]" in told(others, "23503")


def test_a_missing_column_is_added_with_its_type_where_that_is_known() -> None:
    text = 'column "Paid" of relation "Orders" does not exist'
    add = 'ALTER TABLE mart."Orders" ADD COLUMN IF NOT EXISTS "Paid" numeric(12,2);'
    assert told(f"{text} (type numeric(12,2))", "42703").startswith(f"As an administrator of sink mart, run `{add}`")
    assert 'add or rename "Paid"' in told(text, "42703")


def test_a_missing_table_is_named_where_it_is_not_the_target() -> None:
    said = told('relation "mart.codes" does not exist', "42P01")
    assert said == "Restore mart.codes on sink mart, or remove the trigger or rule of mart.Orders that refers to it."
    assert "new snapshot" in told('relation "mart.Orders" does not exist', "42P01")


def test_a_read_only_server_is_a_standby_or_a_setting_that_is_reset() -> None:
    said = told("cannot execute INSERT in a read-only transaction", "25006")
    assert said.startswith("Set host of sink mart to the primary if this server is a standby; otherwise, as an")
    assert "`ALTER ROLE etl RESET default_transaction_read_only;`" in said


def test_what_is_not_known_borrows_no_act() -> None:
    said = explain(Refusal("cache lookup failed", "XX000", job="orders rt"))
    assert said.problem == "cause not recognized: cache lookup failed"
    assert said.action == "Read `slotkeeper jobs logs 'orders rt'`: it shows the preceding messages."


@pytest.mark.parametrize("cause", [*CAUSES, UNKNOWN], ids=lambda cause: cause.code)
def test_every_act_is_imperative_and_names_are_put_into_it(cause: Message) -> None:
    for kind in ("postgres", "mysql", "doris"):
        for side in ("source", "sink"):
            action = filled(cause, replace(SINK, kind=kind, side=side)).action
            first = action.split()[0]
            assert not re.search(r"[{}]", action), action
            assert first[0].isupper() or first.startswith("`slotkeeper"), action
            assert not first.endswith("ed"), f"begins with a past participle: {action}"


def test_a_doris_account_with_a_quote_in_its_name_ends_no_literal() -> None:
    act = told("LOAD_PRIV denied", "1142", kind="doris", user="o'k", table="mart.orders")
    assert "TO 'o''k'@'%';" in act
