"""References are resolved to secrets; errors name the reference, and no text contains the secret."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core import redaction
from slotkeeper.core.config import handover, masking, secrets
from slotkeeper.core.config.load import load
from slotkeeper.core.config.secrets import complaint, place, resolve
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.errors import ConfigError
from tests.unit.config.samples import SECRET, VALID


@pytest.fixture(autouse=True)
def _nothing_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_secrets", {})
    monkeypatch.setattr(redaction, "_known", [redaction.Known()])


def redact(text: str, known: list[str]) -> str:
    return redaction.Known(spelling for secret in known for spelling in masking.spellings(secret)).without(text)


@pytest.mark.parametrize(
    ("raw", "expected"), [("a b", "a b"), ("a\n", "a"), ("a\n\n", "a\n"), ("a\r\n", "a"), (" a ", " a "), ("pä", "pä")]
)
def test_one_newline_is_dropped_and_nothing_else(tmp_path: Path, raw: str, expected: str) -> None:
    file = tmp_path / "p"
    file.write_bytes(raw.encode())
    assert resolve(SecretRef("file", str(file))) == expected
    command = f"{sys.executable} -c 'import sys; sys.stdout.buffer.write({raw.encode()!r})'".replace("'", '"')
    assert resolve(SecretRef("command", command.replace('b"', "b'").replace('")"', "')\""))) == expected


def test_no_reference_means_no_password() -> None:
    assert resolve(SecretRef()) == ""


def test_a_variable_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", SECRET)
    assert resolve(SecretRef("env", "A_PASSWORD")) == SECRET
    assert redaction.masked(f"password={SECRET};") == "password=***;"


def test_a_command_gets_no_shell(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    assert resolve(SecretRef("command", f"echo x; touch {planted}")) == f"x; touch {planted}"
    assert not planted.exists()


def _failure(ref: SecretRef) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(ref)
    assert SECRET not in str(caught.value) + caught.value.hint
    return str(caught.value)


def test_each_failure_names_its_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = str(tmp_path / "none")
    assert _failure(SecretRef("file", missing)) == f"password_file {missing} cannot be read: No such file or directory"
    monkeypatch.delenv("NOT_SET", raising=False)
    assert _failure(SecretRef("env", "NOT_SET")) == "the variable NOT_SET (password_env) is not set"
    monkeypatch.setenv("EMPTY", "")
    assert _failure(SecretRef("env", "EMPTY")) == "the variable EMPTY (password_env) is empty"
    assert _failure(SecretRef("command", missing)).startswith(f"password_command {missing} ... cannot be run")
    assert (
        _failure(SecretRef("command", f"sh -c 'echo {SECRET} >&2; exit 3'"))
        == "password_command sh ... exited with status 3"
    )
    assert "quote is not closed" in _failure(SecretRef("command", f"echo '{SECRET}"))


@pytest.mark.parametrize("raw", [b"\xff", b"a\0b", b"x" * 100_000, b"\n"], ids=["latin", "nul", "huge", "empty"])
def test_an_invalid_password_is_rejected(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "p"
    file.write_bytes(raw)
    assert str(file) in _failure(SecretRef("file", str(file)))


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "COMMAND_LIMIT", 0.2)
    began = time.monotonic()
    assert "did not exit" in _failure(SecretRef("command", "sleep 300"))
    assert time.monotonic() - began < 100


def test_of_a_command_only_the_program_is_shown() -> None:
    assert place(SecretRef("command", f"curl -H {SECRET} x")) == "password_command curl ..."
    assert complaint(SecretRef("command", "curl")) == ""


@given(st.text(min_size=4), st.text())
def test_redacted_text_never_holds_the_secret_as_it_is_or_quoted(secret: str, around: str) -> None:
    for spelled in (secret, repr(secret)[1:-1]):
        assert redact(f"<{spelled}>", [secret]) == "<***>"
    if "*" not in secret:
        assert secret not in redact(around + secret + around, [secret])


def test_the_longest_secret_is_taken_out_first() -> None:
    assert redact("abcd abc", ["abc", "abcd", ""]) == "*** ***"


def test_a_variable_that_the_environment_names_as_a_secret_is_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "_named", set[str]())
    monkeypatch.setenv("FROM_ELSEWHERE", SECRET)
    file = tmp_path / "c.toml"
    file.write_text(VALID, "utf-8")
    load(file, {"SLOTKEEPER_SOURCES__DWS1__PASSWORD_ENV": "FROM_ELSEWHERE"})
    assert "FROM_ELSEWHERE" not in handover.environment()
    assert handover.value("FROM_ELSEWHERE") == SECRET


def test_own_programs_have_few_arenas_of_memory_unless_the_user_sets_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    with handover.passed() as usual:
        assert usual.environment["MALLOC_ARENA_MAX"] == "2"
    monkeypatch.setenv("MALLOC_ARENA_MAX", "8")
    with handover.passed() as own:
        assert own.environment["MALLOC_ARENA_MAX"] == "8"
