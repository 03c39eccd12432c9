"""Broken, huge and hostile texts end with one line that names a place, without a traceback and without any secret."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from bench.imported import CASES, PASSWORD
from slotkeeper.core.config.load import load_usable
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.importing import lists, written
from slotkeeper.core.importing.pasted import SIZE_MAX, Pasted, secrets_in
from slotkeeper.core.importing.written import Given
from tests.support.printed import typed as run

TABLE = f"CREATE TABLE s (id INT) WITH ('connector' = 'dws', 'password' = '{PASSWORD}', 'url' = 'jdbc:gaussdb://h:1/d'"
IN_URL = PASSWORD.replace("/", "-")
HUNTER = "Hunter22xyz"


def _in_url(url: str) -> str:
    option = f"'connector' = 'jdbc', 'url' = 'jdbc:{url}', 'table-name' = 'orders'"
    sink = f"CREATE TABLE t (id INT) WITH ({option.replace(url, 'postgresql://h/d')});"
    return f"CREATE TABLE s (id INT) WITH ({option});\n{sink}\nINSERT INTO t SELECT id FROM s;"


HOSTILE = {
    "an open quote": f"{TABLE}, 'tableName' = 'x);",
    "an open quote before the password": f"CREATE TABLE s (id INT) WITH ('type = 'dws', 'password' = '{PASSWORD}');",
    "no comma": f"CREATE TABLE s (id INT) WITH ('connector' = 'dws' 'password' = '{PASSWORD}');",
    "no value": f"CREATE TABLE s (id INT) WITH ('password' '{PASSWORD}');",
    "a password as a name": f"{TABLE}, '{PASSWORD}' = 'x', 'binlog' = 'true');",
    "a password as a column": f"CREATE TABLE s ('password' = '{PASSWORD}');",
    "an open parenthesis": TABLE,
    "an open comment": f"{TABLE}); /* '{PASSWORD}'",
    "nothing but the password": f"password={PASSWORD}",
    "deep parentheses": TABLE + ");\nINSERT INTO s SELECT " + "(" * 5_000 + "1" + ")" * 5_000 + ";",
    "deep JSON": "[" * 100_000,
    "open JSON": f'{{"name": "x", "config": {{"connection.password": "{PASSWORD}"',
    "JSON of the wrong form": f'[{{"config": ["{PASSWORD}"]}}]',
    "a value that is a list": f'{{"connector.class": ["{PASSWORD}"], "database.password": {{"x": "{PASSWORD}"}}}}',
    "a line of 1 MB": TABLE + ", 'x' = '" + "y" * 1_000_000 + "');",
    "many options": TABLE + "".join(f", 'o{n}' = 'x'" for n in range(20_000)) + ");",
    "a property without a value": f"canal.instance.dbPassword\n{PASSWORD}",
    "control characters": f"{TABLE}, '\x1b]52;c;{PASSWORD}\x07' = '\x00', 'binlog' = 'true');",
    "a secret of another name": f"{TABLE}, 'ssl.truststore.password' = '{PASSWORD}', 'binlog' = 'true');",
    "a secret in an address": TABLE.replace("//h:1", f"//etl:{IN_URL}@h:1") + ", 'binlog' = 'true');",
    **{
        f"a password as {url}": _in_url(url)
        for url in (
            f"mysql://db/shop?user=root&password=Ab;{HUNTER}",
            f"mysql://db/shop?user=root&password=Ab&{HUNTER}",
            f"mysql://db/shop?user=root&password=Ab&{HUNTER}=x&useSSL=false",
            f"mysql://db/shop?password=a,{HUNTER};b",
            f"mysql://root:Pa/{HUNTER}@db:3306/shop",
            f"mysql://root:Pa?{HUNTER}@db:3306/shop",
            f"mysql://root:Pa#{HUNTER}@db:3306/shop",
            f"mysql://root:P@{HUNTER}/x@db:3306/shop",
            f"postgresql://root:Pa/{HUNTER}@db:5432/shop",
            f"mysql://root:{HUNTER},x@db:3306/shop",
        )
    },
    "a newline in a value": f"{TABLE}, 'tableName' = 'a\nb', 'binlog' = 'true');",
    "quotes in names": f"{TABLE}, 'tableName' = 'a\"b', 'username' = 'u\"]\\nkind = 1', 'binlog' = 'true');",
}


def outcome(text: str) -> str:
    """The configuration and its refusals, or the error's line."""
    try:
        made = written.configuration(
            lists.with_canal(Pasted().plus(lists.read(text))), Given(secrets=frozenset(secrets_in(text)))
        )
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1, error
        assert re.match(r"line \d+: ", str(error)), error
        return f"{error} {error.hint}"
    try:
        load_usable(Path("imported.toml"), {}, text=made.text).whole()
        assert not made.refused
    except ConfigError as error:
        assert made.refused, error
        return f"{made.text} {error} {made.remarks}"
    return made.text


@pytest.mark.parametrize("title", HOSTILE)
def test_a_hostile_text_ends_with_a_line_and_no_secret(title: str) -> None:
    said = outcome(HOSTILE[title])
    assert PASSWORD not in said and IN_URL not in said and HUNTER not in said
    assert "\x1b" not in said and "\x00" not in said


def test_texts_cut_and_changed_at_random_repeat_no_secret(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(150):
        text = chance.choice(CASES).text
        place = chance.randrange(len(text))
        while text.rfind(PASSWORD, max(0, place - len(PASSWORD)), place + len(PASSWORD)) >= 0:
            place = chance.randrange(len(text))
        change = chance.choice(("cut", "drop", *"'\"(),;=\\\n`"))
        if change == "cut":
            text = text[:place]
        elif change == "drop":
            text = text[:place] + text[place + 1 :]
        else:
            text = text[:place] + change + text[place:]
        if text.strip():
            assert PASSWORD not in outcome(text), text


def test_the_command_prints_one_line_for_a_text_that_cannot_be_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for content, expected in (
        (b"", "is empty"),
        (b"\xff\xfe", "line 1 is not UTF-8 text"),
        (b"x" * (SIZE_MAX + 1), "is larger than 1 MiB"),
        (HOSTILE["an open quote"].encode(), "line 1: a quote or a comment is not closed"),
    ):
        (tmp_path / "pasted.sql").write_bytes(content)
        code, out, err = run(capfd, "import", str(tmp_path / "pasted.sql"))
        assert (code, out) == (2, "")
        assert expected in err and "Traceback" not in err and PASSWORD not in err
    code, out, err = run(capfd, "import", str(tmp_path))
    assert (code, out) == (2, "") and "Is a directory" in err


def test_the_command_repeats_no_part_of_a_password_in_an_address(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for title in (one for one in HOSTILE if HUNTER in one):
        (tmp_path / "pasted.sql").write_text(HOSTILE[title])
        code, out, err = run(capfd, "import", str(tmp_path / "pasted.sql"))
        assert code == 2 and HUNTER not in out + err, (title, out, err)


def test_the_command_prints_the_configuration_and_what_it_refuses(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    case = next(one for one in CASES if one.title == "Flink, `dws` sink: several writers")
    (tmp_path / "orders.sql").write_text(case.text)
    code, out, err = run(capfd, "import", str(tmp_path / "orders.sql"))
    assert code == 2 and "line 2: connectionSize: refused" in err
    assert PASSWORD not in out + err and "password_file" in out
    servers = ("--source", "etl@dws1:8000/gaussdb", "--sink", "etl@mart:5432/mart")
    (tmp_path / "orders.sql").write_text(case.text.replace("'connectionSize' = '4'", "'connectionSize' = '1'"))
    code, out, err = run(capfd, "import", str(tmp_path / "orders.sql"), *servers)
    assert code == 0 and "valid (1 job)" in err, err
    assert load_usable(Path("imported.toml"), {}, text=out).whole().jobs.keys() == {"orders"}


def test_no_character_of_a_value_starts_a_line_of_the_printed_configuration(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    case = next(one for one in CASES if one.title == "Flink, `dws` sink: several writers")
    servers = ("--source", "etl@dws1:8000/gaussdb", "--sink", "etl@mart:5432/mart")
    text = case.text.replace("'connectionSize' = '4'", "'connectionSize' = '1'")
    for end in "\u2028\u2029\x85\x0b\x0c\x1c\x1e":
        where = f" WHERE id <> 'a{end}on_existing = 1{end}b'"
        (tmp_path / "orders.sql").write_text(text.rstrip().rstrip(";") + where + ";", encoding="utf-8")
        _, out, err = run(capfd, "import", str(tmp_path / "orders.sql"), *servers)
        assert not any(line.startswith("on_existing = 1") for line in out.splitlines()), (end, out)
        assert end not in out and "Traceback" not in err
        if "valid (1 job)" in err:
            load_usable(Path("imported.toml"), {}, text=out).whole()
