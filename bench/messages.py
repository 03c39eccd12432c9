"""`python -m bench.messages`: prints every message with its code, as in `docs/messages.md`."""

from __future__ import annotations

import sys

from bench.columns import wrapped
from slotkeeper.core.domain.fault import NAMED, RULES, Urgency
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.judgement.servers import CAUSES, IMPACTS, UNKNOWN

_HEAD = """# Messages

Every message about an error has a code. This page lists each code with the problem, its impact and the
action. Screens, `--json`, alerts and the [runbook](runbook.md) show the same code. A code is never
reused for another message.

## A server rejects a request (SK-1...)

The server's error code takes precedence over its text. PostgreSQL, GaussDB(DWS) and Hologres report an
SQLSTATE; MySQL and MariaDB report an error number. A message replaces each name in braces with a name
from your configuration, or with a statement built from the server's response.

| code | problem | server's error codes | action |
| --- | --- | --- | --- |
"""
_OF_KIND = """
| codes | impact until the problem is fixed |
| --- | --- |
"""
_FAULTS = """
## A fault (SK-2...)

[Alerts](alerts.md) describes when each rule starts and stops firing, and what to do. Screens list faults
by severity. Within a severity, faults that block a job come first, then faults that delay it, then
faults that threaten it.

| code | rule | effect on the job |
| --- | --- | --- |
"""
_NAMED = """
## An error that ends a job or a table (SK-26..)

The rule is `job_failed` or `table_failed`, with the code of the error instead of the rule's own code. If
the action is a new snapshot, the message also contains the commands.

| code | error | action |
| --- | --- | --- |
"""
_URGENCIES = {
    Urgency.BLOCKS: "rows wait until the fault ends",
    Urgency.DELAYS: "rows are applied late, or information about them is late",
    Urgency.THREATENS: "nothing is waiting yet",
}


def page() -> str:
    """Return the page as Markdown."""
    causes = [
        f"| {one.code} | {one.problem} | {' '.join(one.codes) or '-'} | {one.action} |" for one in (*CAUSES, UNKNOWN)
    ]
    impacts = [f"| {start}.. | {impact} |" for start, impact in IMPACTS.items()]
    rules = sorted(RULES.items(), key=lambda pair: pair[1].code)
    faults = [f"| {rule.code} | `{name}` | {_URGENCIES[rule.urgency]} |" for name, rule in rules]
    named = [f"| {code} | `{name.value}` | {SAFE[name]} |" for name, code in NAMED.items()]
    tables = ((_HEAD, causes), (_OF_KIND, impacts), (_FAULTS, faults), (_NAMED, named))
    return wrapped("".join(head + "\n".join(rows) + "\n" for head, rows in tables))


if __name__ == "__main__":
    sys.stdout.write(page())
