"""Every JSON value that a command prints in a test is validated strictly against its schema.

`printed` names the schemas that were used.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bench.schemas import SCHEMAS, document
from slotkeeper.console import __main__ as entry
from slotkeeper.console.cli import output
from slotkeeper.console.commands import main as main_cli

printed: set[str] = set()


@functools.cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(document(name))


def broken(name: str, value: object) -> list[str]:
    return [
        f"{name}{_inner(error).json_path.removeprefix('$')}: {_inner(error).message[:300]}"
        for error in validator(name).iter_errors(value)
    ]


def _inner(error: Any) -> Any:
    """If a value matches none of several forms, the error of the closest form."""
    while error.context:
        error = max(error.context, key=lambda one: (len(one.absolute_path), one.validator != "additionalProperties"))
    return error


def named(args: Sequence[str]) -> str:
    """The name of a command line's schema; "" if it has none.

    >>> named(["slots", "peek", "t", "--jsonl", "--config", "c"]), named(["--ascii", "status", "--json"]), named(["x"])
    ('slots peek --jsonl', 'status', '')
    """
    words = [word for word in main_cli.hoisted(args) if not word.startswith("-")]
    for start in range(len(words)):
        for count in (2, 1):
            name = " ".join(words[start : start + count])
            if name in SCHEMAS:
                return f"{name} --jsonl" if "--jsonl" in args else name
    return ""


@pytest.fixture(autouse=True)
def _printed_as_promised(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail the test after its end: within a command, the failure would be one more defect of that command."""
    faults: list[str] = []
    running: list[str] = []
    as_json = output.as_json

    def noted(run: Callable[[Sequence[str]], int], args: Sequence[str]) -> int:
        running.append(named(args))
        try:
            return run(args)
        finally:
            running.pop()

    def checked(value: object) -> None:
        as_json(value)
        if running:
            name, plain = running[-1], json.loads(output.json_text(value))
            faults.extend(broken(name, plain) if name else [f"a command without a schema printed {plain}"])
            printed.add(name)

    monkeypatch.setattr(main_cli, "run", functools.partial(noted, main_cli.run))
    monkeypatch.setattr(entry, "_run", functools.partial(noted, entry._run))  # `status` runs without Typer
    monkeypatch.setattr(output, "as_json", checked)
    yield
    assert not faults, "\n".join(faults)
