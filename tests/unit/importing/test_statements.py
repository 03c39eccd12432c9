"""Statements of a text: names of tables, and refusals that must not be lost."""

from __future__ import annotations

import re

import pytest

from slotkeeper.core.importing import lists, written
from slotkeeper.core.importing.pasted import Pasted
from slotkeeper.core.importing.written import Given, Made


def made(text: str) -> Made:
    return written.configuration(lists.with_canal(Pasted().plus(lists.read(text))), Given())


def table(name: str, its: str, more: str = "") -> str:
    options = f"'connector' = 'dws', 'url' = 'jdbc:gaussdb://h:1/d', 'tableName' = '{its}', 'username' = 'u'"
    return f"CREATE TABLE {name} (id INT, v INT) WITH ({options}{more});\n"


def sink(name: str, its: str) -> str:
    options = f"'connector' = 'jdbc', 'url' = 'jdbc:postgresql://p:5432/d', 'table-name' = '{its}', 'username' = 'u'"
    return f"CREATE TABLE {name} (id INT, v INT) WITH ({options});\n"


def test_a_refusal_of_a_later_statement_of_a_set_is_kept() -> None:
    tables = table("a", "public.a") + table("b", "public.b", ", 'no.such.option' = '1'")
    tables += sink("x", "public.x") + sink("y", "public.y")
    pasted = "BEGIN STATEMENT SET;\nINSERT INTO x SELECT * FROM a;\nINSERT INTO y SELECT * FROM b;\nEND;"
    found = made(tables + pasted)
    assert [one.what for one in found.refused] == ["no.such.option"]
    assert len(set(re.findall(r"\[\[jobs\.(\w+)\.channels", found.text))) == 1
    assert "no.such.option: refused" in found.text


def test_tables_of_several_databases_are_told_apart_and_an_ambiguous_name_is_refused() -> None:
    tables = table("one.a", "one.a") + table("two.a", "two.a") + sink("x", "public.x")
    assert 'from = "one.a"' in made(f"{tables}INSERT INTO x SELECT * FROM one.a;").text
    assert 'from = "two.a"' in made(f"{tables}INSERT INTO x SELECT * FROM two.a;").text
    found = made(f"{tables}INSERT INTO x SELECT * FROM a;")
    assert any("matches several" in one.text for one in found.refused)
    assert 'from = "' not in found.text


@pytest.mark.parametrize("where", ["id / 2 = 1", "v > 1 AND (id + 1) / 2 < 7"])
def test_a_division_in_a_condition_is_refused(where: str) -> None:
    found = made(table("a", "public.a") + sink("x", "public.x") + f"INSERT INTO x SELECT * FROM a WHERE {where};")
    assert [one.what for one in found.refused if "division" in one.text] == ["WHERE"]
    assert "\nwhere =" not in found.text
