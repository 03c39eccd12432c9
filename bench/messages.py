"""`python -m bench.messages`: prints every message with its code, as in `docs/messages.md`."""

from __future__ import annotations

import sys

from bench.columns import wrapped
from slotkeeper.core.domain.fault import RULES, Urgency
from slotkeeper.core.judgement.servers import CAUSES, IMPACTS, UNKNOWN

_HEAD = """# Messages

Every message about an error has a code. This page lists each code with the problem, its impact and the
action. Screens, `--json`, alerts and the [runbook](runbook.md) show the same code, and a code never
moves to another message.

## A server rejects a request (SK-1...)

The server's code decides before its text: an SQLSTATE of PostgreSQL, GaussDB(DWS) and Hologres, or an
error number of MySQL and MariaDB. Names in braces are those of your configuration, or a statement made
from the server's answer.

| code | problem | server's codes | action |
| --- | --- | --- | --- |
"""
_OF_KIND = """
| codes | impact until then |
| --- | --- |
"""
_FAULTS = """
## A fault (SK-2...)

[Alerts](alerts.md) says when each rule starts and ends, and what to do. Faults are listed by severity.
Of one severity, faults that block a job come first, then those that delay it, then those that threaten
it.

| code | rule | effect on the job |
| --- | --- | --- |
"""
_URGENCIES = {
    Urgency.BLOCKS: "rows wait",
    Urgency.DELAYS: "rows, or what is known of them, come late",
    Urgency.THREATENS: "nothing waits yet",
}


def page() -> str:
    """Return the page as Markdown."""
    causes = [
        f"| {one.code} | {one.problem} | {' '.join(one.codes) or '-'} | {one.action} |" for one in (*CAUSES, UNKNOWN)
    ]
    impacts = [f"| {start}.. | {impact} |" for start, impact in IMPACTS.items()]
    rules = sorted(RULES.items(), key=lambda pair: pair[1].code)
    faults = [f"| {rule.code} | `{name}` | {_URGENCIES[rule.urgency]} |" for name, rule in rules]
    tables = ((_HEAD, causes), (_OF_KIND, impacts), (_FAULTS, faults))
    return wrapped("".join(head + "\n".join(rows) + "\n" for head, rows in tables))


if __name__ == "__main__":
    sys.stdout.write(page())
