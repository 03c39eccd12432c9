"""A secret that this process has resolved appears in none of its texts, in no encoding."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
import timeit
from pathlib import Path
from urllib.parse import quote

import pytest

from slotkeeper.console.cli import output
from slotkeeper.console.monitor.log_tail import Tail
from slotkeeper.console.monitor.store_reader import message_of
from slotkeeper.core import redaction
from slotkeeper.core.config import masking
from slotkeeper.core.domain.job import JobEvent, JobState
from slotkeeper.core.domain.report import JobReport
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ErrorValues, Trouble, Unreachable
from slotkeeper.core.launch.log import last_lines
from slotkeeper.core.state.sqlite import Store

MIB = 1 << 20
WORDS = "words of a text " * 250
SECRET = "p'A\"ss  w/ö+rd\\1"


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", [redaction.Known()])
    monkeypatch.setattr(masking, "_secrets", {})
    masking.remember(SECRET)


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        SECRET.replace("'", "''"),
        SECRET.replace('"', '""'),
        SECRET.replace("\\", "\\\\").replace("'", "\\'"),
        " ".join(SECRET.split()),
        repr(SECRET)[1:-1],
        json.dumps(SECRET)[1:-1],
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower().replace("a%22", "A%22"),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
        SECRET.encode().hex(),
        SECRET.upper(),
        SECRET.lower(),
        "\0".join(SECRET),
        base64.b64encode(SECRET.encode("utf-16-le")).decode(),
    ],
)
def test_each_spelling_is_masked(spelled: str) -> None:
    assert redaction.masked(f"<{spelled}>") == "<***>"


def test_a_text_is_masked_before_it_is_cut() -> None:
    assert safe("x" * 15 + SECRET, 20) == "x" * 15 + "***"


@pytest.mark.parametrize("plain", ["orders", "postgres", "12345678", "a\u00a0b\u00a0c"])
def test_a_plain_secret_is_left_where_it_stands(plain: str) -> None:
    masking.remember(plain)
    assert redaction.masked(f"table {plain}") == f"table {plain}"


def test_an_error_of_slotkeeper_has_it_nowhere_also_after_a_process() -> None:
    for error in (Unreachable(f"no {SECRET}", SECRET, cause=SECRET), Trouble(f"no {SECRET}", SECRET, cause=SECRET)):
        assert SECRET not in repr(error.args) + repr(vars(error)) + repr(ErrorValues.of(error))
        assert SECRET not in repr(pickle.loads(pickle.dumps(error)).args)


LONG = "Ab3-long-secret-of-somebody"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_utf_16_is_masked_where_its_bytes_are_shown(encoding: str) -> None:
    masking.remember(LONG)
    shown = safe(f"password={LONG}".encode(encoding))
    assert "***" in shown and "l\\x00o\\x00n\\x00g" not in shown


@pytest.mark.parametrize("at", range(1, len(LONG), 5))
def test_a_secret_that_a_piece_of_a_log_cuts_apart_is_seen_in_neither(at: int, tmp_path: Path) -> None:
    masking.remember(LONG)
    path = tmp_path / "j.log"
    path.write_bytes(b"x" * (2_000 - at) + LONG.encode() + b"y" * 100)
    tail = Tail(path)
    tail.read()
    with path.open("ab") as writing:
        writing.write(b"z" * (1_999 - at) + LONG.encode())
    tail.read()
    with path.open("ab") as writing:
        writing.write(b"y" * 3_000 + b"\nnext\n")
    tail.read()
    texts = [line.text for line in tail.lines] + last_lines(path, 5)
    for text in texts:
        for n in range(3, len(LONG)):
            assert LONG[:n] not in text and LONG[-n:] not in text
    assert tail.lines[-1].text == "next"


def test_a_line_that_is_not_written_to_its_end_yet_shows_no_part(tmp_path: Path) -> None:
    masking.remember(LONG)
    path = tmp_path / "j.log"
    path.write_text(f"first\npassword={LONG[:9]}", encoding="ascii")
    assert last_lines(path, 5) == ["first", "password=***"]


def test_a_servers_text_comes_without_it() -> None:
    assert pg.failure(Exception(f"no route: password={SECRET}")) == ("", "no route: password=***")


def test_what_is_printed_is_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    output.line(f"a {SECRET}")
    output.table(["a", "b"], [[SECRET, 7]], width=80)
    output.as_json({"said": [SECRET, {SECRET: 7}], "file": Path("/tmp") / "x"})
    said = capsys.readouterr().out
    assert redaction.masked(said) == said and said.count("***") == 4
    assert message_of(OSError(f"no {SECRET}")) == "no ***"


def test_what_is_stored_is_without_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state") as store:
        store.register_job("j", "c.toml")
        store.begin_run("j", "r1")
        store.record_error("j", "sink", SECRET, f"no {SECRET}")
        store.record_event("j", "failed", f"no {SECRET}")
        store.put_report(JobReport("j", "r1", JobState.RUNNING.value, reason=f"no {SECRET}"))
        store.apply("j", JobEvent.FAILED, f"no {SECRET}", "", SECRET)
        store.end_run("r1", 1, f"no {SECRET}")
    shown = b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert b"no ***" in shown
    assert not [one for one in masking.spellings(SECRET) if one.encode() in shown]


def test_a_traceback_of_a_program_is_without_it() -> None:
    code = (
        "from slotkeeper.core.config import masking\n"
        f"masking.remember({SECRET!r}); masking.mask_tracebacks()\n"
        f"raise ValueError('no ' + {SECRET!r})\n"
    )
    ran = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 1 and "ValueError: no ***" in ran.stderr and SECRET not in ran.stderr


def test_after_a_thousand_tokens_of_one_reference_the_newest_few_are_known_and_a_text_costs_no_more() -> None:
    size, before = 0, min(timeit.repeat(lambda: redaction.masked(WORDS), number=10, repeat=100)) / 10
    for number in range(1_000):  # secrets that are dropped may be short
        masking.remember(f"{number:04d}" + "aB3" * (399 if number > 990 else 33), "a token")
        size = size or len(redaction._known[0].spellings)
    known = redaction._known[0]
    assert list(masking._secrets["a token"]) == [f"{number:04d}" + "aB3" * 399 for number in range(996, 1_000)]
    assert len(known.spellings) <= masking.NEWEST * size
    assert sum(map(sys.getsizeof, [*known.spellings, *known._pieces])) < MIB
    for token in masking._secrets["a token"]:
        assert redaction.masked(f"token={token};") == "token=***;"
    took = min(timeit.repeat(lambda: redaction.masked(WORDS), number=10, repeat=100)) / 10
    assert took - before <= 0.000_05, f"{before * 1e3:.3f} ms before, {took * 1e3:.3f} ms now for 4,000 characters"


def test_secrets_of_another_reference_stay_masked() -> None:
    masking.remember("0ther-secret", "another")
    for number in range(20):
        masking.remember(f"{number:02d}-t0ken-of-one", "one")
    assert redaction.masked("0ther-secret") == "***"


@pytest.mark.parametrize("long", [38, 39, 40, 200])
def test_a_long_secret_is_masked_wherever_in_a_text_it_stands(long: int) -> None:
    token = "".join(chr(33 + (7 * at * at + at) % 89) for at in range(long))
    known = redaction.Known([token])
    for at in range(70):
        for rest in (0, 1, 90):
            assert known.without("." * at + token + "," * rest) == "." * at + "***" + "," * rest


def test_a_text_of_4000_characters_is_searched_for_no_long_secret_one_by_one() -> None:
    class Counted(str):
        def __contains__(self, one: object) -> bool:
            searched.append(one)
            return super().__contains__(str(one))

    searched: list[object] = []
    for number in range(50):
        masking.remember(f"{number:04d}" + "aB3" * 399, "a token")
    assert redaction.masked(Counted(WORDS)) == WORDS
    assert not [one for one in searched if len(str(one)) >= redaction.STRIDE + redaction.PIECE]


@pytest.mark.parametrize(
    "secret", ["s3cret", 'qu"ote\\d', "line\nend", "gr\u00fc\u00dfe", "\U0001f511key", "</a>", "null", "false"]
)
def test_values_as_json_are_masked_as_one_by_one_and_nothing_else_changes(secret: str) -> None:
    redaction.know([secret])
    values = {"said": [f"a {secret} b", secret, None, False, 7], "plain": {"x": "y"}, "null": "false "}
    assert json.loads(redaction.masked_json(values)) == redaction.masked_values(values)
    clean = {"said": ["a", None, True], "rows": 7}
    assert json.loads(redaction.masked_json(clean)) == clean
