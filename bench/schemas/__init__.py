"""JSON Schemas (2020-12) of every `--json` output and of the audit log, and the files of `docs/schemas`.

Tests validate each output strictly: a missing or unlisted key fails them. To add a command with `--json`, describe its
output in the file of its group, and write the pages (`make docs`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.columns import wrapped
from bench.schemas import jobs, looking, slots, views
from bench.schemas.jobs import NOTIFICATION
from bench.schemas.looking import LOG
from bench.schemas.pieces import DIALECT, Schema

SCHEMAS: dict[str, Schema] = {**jobs.SCHEMAS, **slots.SCHEMAS, **looking.SCHEMAS, **views.SCHEMAS}
"""The schemas by command ("jobs list"), with the option if a command has two outputs ("slots peek --jsonl"). The key of
the audit log is its file name, that of a notification is "alert".
"""

_INTRODUCTION = """\
# JSON output

Commands with `--json` or `--jsonl` print their output for programs. This page lists the
[JSON Schema](https://json-schema.org/draft/2020-12) of each output, and of the audit log's files. The
audit log is the only log in JSON: a job's log is text, and `jobs logs --json` prints its lines. The
schemas are generated from `bench/schemas` (`make docs`). Tests validate every output against them, so
no key is added or removed without a change here.

- An object always has all of its keys. `null` means "unknown" or "none", as the key's description
  states.
- Times are RFC 3339 in UTC with `Z`. The description of any other number gives its unit: seconds,
  rows, events.
- Strings are ASCII with escapes and contain no control characters; known secrets are masked.
- stdout contains only JSON, one value per line; notes go to stderr. A command that fails before it
  has a result prints no JSON: its exit code and one line on stderr give the reason.
- Only `demo --json` always prints one object, even on failure: `ok` is then false, `why` contains the
  message, and `log` the path of the most informative log.
- Exit codes: 0 success, 1 failure, 2 usage or configuration error, 3 refused, 4 difference found, 5
  server unreachable. `status --exit-code` uses
  [a monitoring plugin's codes](../console.md#for-monitoring).

| Command | Output | Schema |
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
        return f"line of {LOG}"
    if name == NOTIFICATION:
        return "input of the command in [alerts]"
    return f"slotkeeper {name}" + ("" if "--" in name else " --json")
