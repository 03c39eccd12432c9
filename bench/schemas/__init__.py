"""The content of every `--json` output and of the one JSON log, as JSON Schema 2020-12, and the files of
`docs/schemas`.

Tests validate each output strictly: a key that is missing, or not listed here, fails them. To add a command with
`--json`: describe its output in the file of its group, and write the pages (`make docs`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.columns import wrapped
from bench.schemas import jobs, looking, slots
from bench.schemas.jobs import NOTIFICATION
from bench.schemas.looking import LOG
from bench.schemas.pieces import DIALECT, Schema

SCHEMAS: dict[str, Schema] = {**jobs.SCHEMAS, **slots.SCHEMAS, **looking.SCHEMAS}
"""The schemas by command: "jobs list", or "slots peek --jsonl" if a command has two outputs; the log by its file name,
and a notification as "alert".
"""

_INTRODUCTION = """\
# What is printed as JSON

A program can read the output of each command with `--json` or `--jsonl`. This page lists the
[JSON Schema](https://json-schema.org/draft/2020-12) of each. It also lists that of the audit's files,
which are the one log in JSON: a job's log is text, and `jobs logs --json` has its lines. The schemas
are made from `bench/schemas` (`make docs`). Tests compare every output with them, and no key is added
or removed without a change here.

- An object has all of its keys, always. `null` is "not known" or "none", as the key's description
  says.
- Times are RFC 3339 in UTC with `Z`. Other numbers have their unit in the description: seconds, rows,
  events.
- Texts are ASCII with escapes and contain no control characters; known secrets are masked.
- stdout has the JSON and nothing else, one value a line; notes go to stderr. A command that fails
  before it has an answer prints no JSON: its exit code and one line on stderr say why.
- Only `demo --json` prints one object at every end. On a failure `ok` is false, `why` has the message
  and `log` the file that says most.
- Exit codes: 0 fine, 1 failed, 2 usage or configuration, 3 refused, 4 a difference was found, 5
  unreachable; those of `status --exit-code` are
  [a monitoring plugin's](../console.md#for-monitoring).

| Printed by | Holds | Schema |
| --- | --- | --- |
"""


def pages() -> dict[str, str]:
    """Return the files by name."""
    found = {file_of(name): json.dumps(document(name), indent=2) + "\n" for name in SCHEMAS}
    rows = [f"| `{_typed(name)}` | {SCHEMAS[name]['description']} | [{file_of(name)}]({file_of(name)}) |"
            for name in sorted(SCHEMAS)]  # fmt: skip
    return {**found, "README.md": wrapped(_INTRODUCTION + "\n".join(rows) + "\n")}


def document(name: str) -> Mapping[str, Any]:
    """Return one schema as it is published."""
    return {"$schema": DIALECT, "title": _typed(name), **SCHEMAS[name]}


def file_of(name: str) -> str:
    """Return the file name of a schema.

    >>> file_of("slots peek --jsonl"), file_of("jobs list"), file_of("audit.jsonl")
    ('slots-peek-jsonl.json', 'jobs-list.json', 'audit-line.json')
    """
    return "audit-line.json" if name == LOG else name.replace(" --", "-").replace(" ", "-") + ".json"


def _typed(name: str) -> str:
    if name == LOG:
        return f"a line of {LOG}"
    if name == NOTIFICATION:
        return "the command of [alerts] gets it"
    return f"slotkeeper {name}" + ("" if "--" in name else " --json")
