"""Each message of a Doris is mapped to its error or its certain outcome; no value of a row is repeated."""

from __future__ import annotations

import pytest

from slotkeeper.core.errors import AccessRefused, Busy, Refused, RowRefused, SlotkeeperError, TooLarge, Unclassified
from slotkeeper.core.sinks.doris import answers

OF = "errCode = 2, detailMessage = "


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (f"{OF}current running txns on db 10 is 100, larger than limit 100", Busy),
        ("[E-235]failed to init rowset builder. version count: 2001, exceed limit: 2000", Busy),
        ("No backend load available", Busy),
        (f"{OF}unknown database, database=mart", Refused),
        ("errCode = 7, detailMessage = unknown table, tableName=t", Refused),
        ("Two phase commit (2PC) for stream load was disabled", Refused),
        ("no valid Basic authorization", AccessRefused),
        ("body exceed max size: 10, data: 11", TooLarge),
        ("[DATA_QUALITY_ERROR]too many filtered rows", RowRefused),
        ("something new", Unclassified),
    ],
)
def test_a_failed_load_is_the_error_that_it_says(message: str, kind: type[SlotkeeperError]) -> None:
    assert type(answers.refusal(message, "mart.t")) is kind


def test_second_phases_that_are_refused_tell_what_became_of_the_load() -> None:
    assert answers.is_done(f"{OF}transaction [7] is already committed, not pre-committed.")
    assert answers.is_done(f"{OF}transaction [7] is already visible, not pre-committed.")
    assert not answers.is_done(f"{OF}transaction [7] is already VISIBLE, could not abort.")
    assert answers.is_aborted(f"{OF}transaction [7] is already aborted. abort reason: timeout by txn manager")
    assert answers.is_missing(f"{OF}transaction [7] not found")
    assert answers.still_runs(f"{OF}transaction [7] is prepare, not pre-committed.")


def test_rejected_rows_are_told_with_doriss_reasons_and_without_values() -> None:
    page = (
        "Reason: column_name[v], the value [geheim] is too long. src line [1, geheim]; \n"
        "Reason: column_name[v], the value [geheim2] is too long. src line [2, geheim2]; \n"
        "Reason: null value for not null column, column=id. src line [geheim]; \n"
    )
    error = answers.rejected(
        "mart.t", {"NumberFilteredRows": 3, "NumberTotalRows": 9}, page, "http://u:geheim@be:8040/e?file=a"
    )
    assert isinstance(error, RowRefused)
    assert error.message.startswith(
        "mart.t rejects 3 of 9 rows: column_name[v], the value [..] is too long; null value"
    )
    assert "geheim" not in error.message


def test_a_value_with_line_breaks_hides_neither_size_nor_limit_and_is_not_shown() -> None:
    start = "the length of input string is too long than vec schema. first 32 bytes of input str:"
    end = "limit length: 9; actual length: 12"
    page = (
        f"Reason: column_name[v], {start} [geheim\nReason: geheim] {end}; . src line []; \n"
        f"Reason: column_name[w/x], {start} [geheim\n] {end}; . src line []; \n"
    )
    named = [f"column_name[{one}], {start} [..] {end}" for one in ("v", "w/x")]
    assert answers.reasons_of(page) == named


HOSTILE = [
    "Reason: column_name[v], the value [geheim]geheim2]\x1b]0;geheim\x07] is too long. src line [1]; \n",
    "Reason: the value 'it's geheim' cannot be cast. src line ['geheim']; \n",
    "Reason: decimal is not valid, column=v, value=geheim, precision=2. src line [1]; \n",
    "Reason: " + "[geheim" * 10_000 + "]. src line [1]; \n",
    "\x00\x1b[31mgeheim\u202e\n" * 50_000,
]


@pytest.mark.parametrize("page", HOSTILE)
def test_a_hostile_page_gets_no_value_and_no_control_character_into_an_error(page: str) -> None:
    error = answers.rejected("mart.t", {"NumberFilteredRows": 1, "NumberTotalRows": 1}, page, "http://be:1/?file=\x1b")
    assert "geheim" not in error.message
    assert error.message.isprintable()
    assert len(error.message) < 1_500
