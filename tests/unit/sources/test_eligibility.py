"""The rules that need no server: versions and options. An unknown fact does not cause a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.sources.dws.eligibility import (
    NEEDED,
    ServerFacts,
    TableFacts,
    empties,
    given_options,
    hidden_objections,
    kernel,
    partition_warning,
    server_objections,
    table_objections,
)

ALL = dict.fromkeys(NEEDED, True)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("PostgreSQL 9.2.4 (GaussDB 9.1.0.210 build 1a2b) compiled at 2024", (9, 1, 0, 210)),
        ("PostgreSQL 9.2.4 (GaussDB Kernel 8.3.0 build x)", (8, 3, 0)),
        ("PostgreSQL 18.6 on x86_64", None),
    ],
)
def test_the_kernel_is_read_out_of_the_version(version: str, found: tuple[int, ...] | None) -> None:
    assert kernel(version) == found


@pytest.mark.parametrize(
    ("version", "refused"),
    [("GaussDB 8.3.0.100", True), ("GaussDB 9.1.0.199", True), ("GaussDB 9.1.0", False), ("GaussDB 9.1.1", False)],
)
def test_a_kernel_counts_as_old_only_where_its_version_says_so(version: str, refused: bool) -> None:
    assert bool(list(server_objections(ServerFacts(version, ALL)))) is refused


def test_an_unknown_fact_causes_no_objection() -> None:
    facts = TableFacts(True, True, False, "enable_hstore=on,enable_binlog_timestamp=true", None)
    assert list(table_objections("ods.t", facts, binlog=True)) == []


@pytest.mark.parametrize(
    ("told", "refused"),
    [
        ({}, False),
        ({"row_security": True}, True),
        ({"row_security": True, "administers": True}, True),  # the server's answer takes precedence over derived facts
        ({"options": "enable_rowsecurity=true"}, True),
        ({"options": "enable_rowsecurity=false"}, False),
        ({"options": "enable_rowsecurity=true", "owned": True}, False),
        ({"options": "enable_rowsecurity=true,force_rowsecurity=true", "owned": True}, True),
        ({"options": "enable_rowsecurity=true,force_rowsecurity=true", "administers": True}, False),
        ({"redacted": True}, True),
        ({"redacted": True, "owned": True}, True),
        ({"redacted": True, "administers": True}, False),
        ({"redacted": False}, False),
    ],
)
def test_rows_may_be_hidden_from_a_login_that_is_not_proven_exempt(told: dict[str, object], refused: bool) -> None:
    facts = replace(TableFacts(True, True, False, "", None), **told)  # type: ignore[arg-type]
    assert bool(list(hidden_objections("ods.t", facts))) is refused
    assert bool(list(table_objections("ods.t", facts, binlog=False))) is refused, "a copy alone is rejected as well"


@pytest.mark.parametrize(
    ("settings", "proven", "refused"),
    [
        ({}, False, False),
        ({"gtm_option": "gtm"}, False, False),
        ({"gtm_option": "0", "enable_gtm_free": "off"}, False, False),
        ({"gtm_option": "gtm-lite"}, False, True),
        ({"gtm_option": "1"}, False, True),
        ({"gtm_option": "GTM-Lite"}, True, False),
        ({"gtm_option": "gtm-free"}, True, True),
        ({"gtm_option": "2"}, True, True),
        ({"enable_gtm_free": "on"}, True, True),
        ({"gtm_option": "gtm", "enable_gtm_free": "on"}, True, True),  # then gtm_option has no effect
    ],
)
def test_a_server_follows_where_each_transaction_is_known_to_have_one_point(
    settings: dict[str, str], proven: bool, refused: bool
) -> None:
    found = list(server_objections(ServerFacts("PostgreSQL 9.2.4", ALL, settings), "dws1", proven))
    assert bool(found) is refused
    assert all("gtm-lite" not in one.cure for one in found), "a rejected setting does not fix it"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["", ""], "doctor --probe dws1"),
        (["events", ""], "doctor --probe dws1"),
        (["events", "neither"], "take a new snapshot"),
        (["events", "clears"], ""),
        (["clears some", "refused"], ""),
    ],
)
def test_a_partitioned_table_is_named_until_a_probe_has_seen_a_trace_of_each(answers: list[str], said: str) -> None:
    warned = partition_warning("ods.t", "dws1", answers)
    assert (said in warned.text) if warned and said else (warned is None and not said)


def test_options_are_read_without_their_case() -> None:
    assert given_options("ORIENTATION=Column,enable_binlog=ON") == {"orientation": "column", "enable_binlog": "on"}


@pytest.mark.parametrize(
    ("mode", "said"), [("ORA", "as NULL"), ("TD", "as an empty string"), ("MySQL", "as an empty string")]
)
def test_each_compatibility_mode_is_named(mode: str, said: str) -> None:
    assert said in empties({"sql_compatibility": mode})
    assert empties({}) == ""
