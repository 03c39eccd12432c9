"""The allowed contents of a row filter, the text that is sent, and that servers read this text as the same filter."""

from __future__ import annotations

import pytest

from slotkeeper.core.row_filter import DEEPEST, WrongFilter, read

SENT = [
    ("region = 'EU'", "\"region\" = 'EU'"),
    ("Region<>'it''s'", "\"region\" <> 'it''s'"),
    ("\"Place\" >= 0 AND v IS DISTINCT FROM '{0} %s'", '"Place" >= 0 AND "v" IS DISTINCT FROM \'{0} %s\''),
    ("a=-1", '"a" = - 1'),
    ("Lower(Name) ~* '^x\\d'", "pg_catalog.lower ( \"name\" ) ~* '^x\\d'"),
    ("d >= DATE '2020-01-01'", "\"d\" >= CAST ( '2020-01-01' AS pg_catalog.date )"),
    ("a::numeric(10,2) = 1", '"a" :: pg_catalog.numeric (10,2) = 1'),
    ("a::timestamp with time zone > '2020-01-01'", "\"a\" :: pg_catalog.timestamptz > '2020-01-01'"),
    ("a > '2020-01-01'::date", "\"a\" > '2020-01-01' :: pg_catalog.date"),
    ("a || b::date = 'x'", '"a" || "b" :: pg_catalog.date = \'x\''),
    ("t = 'now'::text", "\"t\" = 'now' :: pg_catalog.text"),
    ("v LIKE '%today%' OR v ->> 'now' = 'x'", "\"v\" LIKE '%today%' OR \"v\" ->> 'now' = 'x'"),
    ("a NOT IN (1, 2) AND b BETWEEN 1 AND 2", '"a" NOT IN ( 1 , 2 ) AND "b" BETWEEN 1 AND 2'),
    ("CASE WHEN a THEN b ELSE c END = 1", 'CASE WHEN "a" THEN "b" ELSE "c" END = 1'),
    ("text = 'x' AND date = 3", '"text" = \'x\' AND "date" = 3'),
]
REFUSED = [
    ("", "one condition"),
    ("a = E'\\x6eow'", "plain strings"),
    ("a = U&'\\006eow'", "plain strings"),
    ("a = $$x$$", "plain strings"),
    ("a = $x$it$x$", "plain strings"),
    ("a = B'1'", "plain strings"),
    ("a = X'1F'", "plain strings"),
    ("a = 'x'  'y'", "two strings"),
    ("a = 'x", "close every quote"),
    ("TABLE x", "without table"),
    ("a IN (TABLE x)", "without table"),
    ("a IN (SELECT 1)", "without select"),
    ("a = (VALUES (1))", "without values"),
    ("exists (select 1)", "without exists"),
    ("user = 'etl'", "without user"),
    ("at > CURRENT_TIMESTAMP", "without current_timestamp"),
    ("pg_sleep(9) IS NULL", "without pg_sleep"),
    ("nextval('s') > 1", "without nextval"),
    ("lo_import('/etc/passwd') > 1", "without lo_import"),
    ("query_to_xml('x', true, true, '') IS NULL", "without query_to_xml"),
    ("set_config('search_path', 'x', false) = ''", "without set_config"),
    ("now () > at", "without now"),
    ('"lower"(a) = 1', "quoted"),
    ("public.lower(a) = 'x'", "without a schema"),
    ("pg_catalog.pg_sleep(1) IS NULL", "without pg_sleep"),
    ("t.id = 1", "without a table"),
    ("a OPERATOR(public.=) 1", "without operator"),
    ("at > 'now'", "current time"),
    ("at > ' Today 04:05'", "current time"),
    ("at > TIMESTAMP 'tomorrow'", "current time"),
    ("at > 'yesterday'::date", "current time"),
    ("at > CAST('now' AS timestamptz)", "current time"),
    ("at > ('n' || 'ow')::timestamp", "only a column or a string"),
    ("at > lower(v)::date", "only a column or a string"),
    ("at > CAST(lower(v) AS date)", "only a column or a string"),
    ("at > v::varchar::date", "only a column or a string"),
    ("at > v::pg_catalog.text::timestamp", "only a column or a string"),
    ("at > v::varchar(3)::date", "only a column or a string"),
    ("at > CAST(a || v AS date)", "only a column or a string"),
    ("at > CAST('n' || 'ow' AS date)", "only a column or a string"),
    ("at > CAST(CAST(v AS text) AS date)", "only a column or a string"),
    ("v::regclass = 1", "must cast to one of"),
    ("v::public.citext = 'x'", "must cast to one of"),
    ("true; DROP TABLE x", "no ;"),
    ("true -- x", "no comment"),
    ("true /* x */", "no comment"),
    ("a /*x*/= 1", "no comment"),
    ("a %- 1 = 0", "listed operators"),
    ("a == 1", "listed operators"),
    ("a @> b", "listed"),
    ("a ? 'x'", "listed"),
    ("a = $1", "plain strings"),
    ("a = 1_000", "space"),
    ("a = 1x", "space"),
    ("a[1] = 2", "listed"),
    ("a = ANY (b)", "without any"),
    ("count(a) > 1", "without count"),
    ("a COLLATE x = 'y'", "without collate"),
    ("a) OR (b", "parentheses"),
    ("(a", "parentheses"),
    ("(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1), "nested parentheses"),
    ("a = b AND", "one valid SQL condition"),
    ("a, b", "one valid SQL condition"),
    ("a b", "one valid SQL condition"),
]


@pytest.mark.parametrize(("typed", "sent"), SENT)
def test_a_filter_is_sent_with_its_own_tokens_quoted_and_named_by_their_schema(typed: str, sent: str) -> None:
    assert read(typed).text == sent


@pytest.mark.parametrize("typed", [typed for typed, _ in SENT])
def test_what_is_sent_is_read_as_itself(typed: str) -> None:
    assert read(read(typed).text) == read(typed)


@pytest.mark.parametrize(("typed", "said"), REFUSED)
def test_what_is_on_no_list_is_refused_by_its_rule(typed: str, said: str) -> None:
    with pytest.raises(WrongFilter, match=r"^must ") as refused:
        read(typed)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_rule_holds_no_value_of_a_filter() -> None:
    for typed in ("a = E'hunter2'", "a == 'hunter2'", "a = 'hunter2' b", "f('hunter2')"):
        with pytest.raises(WrongFilter) as refused:
            read(typed)
        assert "hunter2" not in str(refused.value)


def test_columns_are_told_by_how_they_are_used() -> None:
    found = read("a = 1 AND B::text = 'x' AND CAST(\"C\" AS date) > '2020-01-01' AND d::timestamp > e")
    assert found.columns == {"a", "b", "C", "d", "e"}
    assert found.bare == {"a", "e"} and found.timed == {"C", "d"}


@pytest.mark.parametrize("typed", ["NOT " * 1000 + "a", "- " * 2000 + "a = 1"], ids=["not", "minus"])
def test_a_filter_that_is_too_deep_for_the_parser_is_refused(typed: str) -> None:
    with pytest.raises(WrongFilter):
        read(typed)
