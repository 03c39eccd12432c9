"""The command line's result for each recorded configuration: `python -m tests.net.reads FOLDER`, one JSON line each.

It runs in its own process, because the secrets that a process has read affect what it masks later. A configuration's
line in `recorded/configurations.jsonl` has its name, its text, and where it matters the variables of its environment
(`env`), the files beside it with mode and text (`files`) and its own `mode`; `{folder}` stands for its folder. `like`
names an earlier one, whose values most of its own are.
"""

from __future__ import annotations

import difflib
import gc
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from tests.net import product
from tests.net.recorded import FOLDER, json_line

INPUTS = FOLDER / "configurations.jsonl"
MARK = "{folder}"


def call(*words: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of a command line."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = product.main(list(words))
    return code, out.getvalue(), err.getvalue()


def laid_out(one: dict[str, Any], folder: Path) -> Path:
    """Return the configuration's file, written with the files next to it."""
    folder.mkdir()
    file = folder / "config.toml"
    beside = {"config.toml": [one.get("mode", "600"), one["text"]], **one.get("files", {})}
    for name, (mode, text) in beside.items():
        (folder / name).write_text(text.replace(MARK, str(folder)), "utf-8")
        (folder / name).chmod(int(mode, 8))
    return file


def read(one: dict[str, Any], folder: Path, known: dict[str, list[str]]) -> dict[str, Any]:
    """Return how it is read: code and errors of `config check`, its JSON, the values that differ from `like`.

    `known` are the values of those read before, by name; without an error its own are noted there.
    """
    file = laid_out(one, folder)
    env = {name: value.replace(MARK, str(folder)) for name, value in one.get("env", {}).items()}
    with mock.patch.dict(os.environ, env):
        code, out, err = call("config", "check", "--json", "--config", str(file))
        found: dict[str, Any] = {"name": one["name"], "code": code, "err": err.splitlines()}
        if out:
            found["check"] = json.loads(out)
        if not code:
            shown = json.loads(call("config", "show", "--json", "--config", str(file))[1])
            values = [_setting(key, said).replace(str(folder), MARK) for key, said in shown["settings"].items()]
            diff = difflib.unified_diff(known.get(one.get("like", ""), []), values, lineterm="", n=0)
            found["values"] = ["@@" if each.startswith("@@") else each for each in diff][2:]
            known[one["name"]] = values
    return json.loads(json_line(found).replace(str(folder), MARK))  # type: ignore[no-any-return]


def _setting(key: str, said: dict[str, Any]) -> str:
    return f"{key} = {json_line(said['value'])}  # {said['origin']} {said['place']}".rstrip()


def every(folder: Path) -> Iterator[dict[str, Any]]:
    """Return the readings of all recorded configurations, in their order."""
    known: dict[str, list[str]] = {}
    for number, line in enumerate(INPUTS.read_text("utf-8").splitlines()):
        yield read(json.loads(line), folder / str(number), known)


if __name__ == "__main__":
    gc.disable()  # saves a fifth of the time of a process that runs for a few seconds
    for reading in every(Path(sys.argv[1])):
        sys.stdout.write(json_line(reading) + "\n")
