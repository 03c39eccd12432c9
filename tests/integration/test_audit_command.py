"""`audit verify` against a real sink, and its message when a copy in the sink fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from slotkeeper.core.config.masking import maskable
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from tests.integration.test_reset_command import Shell, shell
from tests.support.canaries import files_with

__all__ = ["shell"]


@pytest.fixture
def reset(shell: Shell) -> Iterator[Shell]:
    """A slot that was reset once: two lines in the file, two in the sink."""
    _ask(shell, "DROP TABLE IF EXISTS slotkeeper_audit")
    assert shell.execute(shell.planned("--to", "earliest")["id"])[0] == 0
    yield shell
    _ask(shell, "DROP TABLE IF EXISTS slotkeeper_audit")


def _ask(shell: Shell, statement: str) -> None:
    with closing(shell.mirror.sink()) as connection, connection.cursor() as cursor:
        cursor.execute(statement)


def audit_of(shell: Shell) -> Audit:
    return Audit(StateFolder.open(shell.state_dir))


def verified(shell: Shell) -> tuple[int, dict[str, object]]:
    code, out, err = shell.call("audit", "verify", "--json")
    assert out, err
    return code, dict(json.loads(out))


def test_nothing_speaks_against_untouched_lines(reset: Shell) -> None:
    code, out, err = reset.call("audit", "verify")
    assert code == 0, err
    assert "2 lines, hash chain intact" in out
    assert "2 lines copied, all match" in out
    assert "not proven:" in out and "users can change their uid" in out
    code, found = verified(reset)
    assert (code, found["differs"], found["lines"], found["broken"]) == (0, False, 2, [])


def test_a_changed_line_and_a_missing_end_are_found(reset: Shell) -> None:
    file = audit_of(reset).file
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"a test", b"a jest", 1))
    code, out, _ = reset.call("audit", "verify")
    assert code == 4 and "BROKEN" in out and "does not follow audit.jsonl:1" in out and "1 DIFFER" in out
    file.write_bytes(whole.splitlines(keepends=True)[0])
    code, found = verified(reset)
    assert (code, found["broken"]) == (4, []), "only the sink shows that there was more"
    assert "slots reset outcome" in str(found["sinks"])
    file.unlink()
    assert verified(reset)[0] == 4


def test_lines_after_the_newest_copy_are_told_as_not_proven(reset: Shell) -> None:
    audit = audit_of(reset)
    line = audit.read(1).lines[0]
    audit.append(line)
    code, found = verified(reset)
    assert code == 0 and "whether the newest 1 lines are unchanged" in str(found["unproven"])


def test_a_sink_that_does_not_answer_is_reported_and_is_another_code(reset: Shell) -> None:
    text = reset.config.read_text("utf-8")
    before, _, sink = text.partition("[sinks.")
    reset.config.write_text(f"{before}[sinks.{sink.replace('port = ', 'port = 1 # ', 1)}", "utf-8")
    code, out, _ = reset.call("audit", "verify")
    assert code == 5 and "not compared:" in out


def test_a_copy_that_fails_is_said_and_stands_in_the_outcome(reset: Shell) -> None:
    body = "BEGIN RAISE EXCEPTION 'no room'; END"
    _ask(reset, f"CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    _ask(reset, "CREATE TRIGGER refuse BEFORE INSERT ON slotkeeper_audit EXECUTE FUNCTION refuse()")
    code, _, err = reset.execute(reset.planned("--to", "earliest")["id"])
    assert code == 0, err
    assert err.count("the sink has no copy of the audit's newest lines: sink mart") == 1 and "no room" in err, err
    newest = audit_of(reset).read(1).lines[0]
    assert newest.phase is Phase.OUTCOME and "(the sink has no copy of the previous line: sink mart" in newest.outcome
    assert "whether the newest 2 lines are unchanged" in str(verified(reset)[1]["unproven"])


def test_a_password_in_a_reason_is_kept_nowhere(reset: Shell) -> None:
    secret = resolve(reset.mirror.job.sink.password)
    assert maskable(secret), "otherwise nothing is shown here"
    code, _, err = reset.execute(reset.planned("--to", "earliest")["id"], "--reason", f"asked by {secret}")
    assert code == 0, err
    assert audit_of(reset).read(1).lines[0].reason == "asked by ***"
    assert not files_with([reset.state_dir], secret)
    kept = reset.mirror.query(reset.mirror.sink, "SELECT r::text FROM slotkeeper_resets r")
    kept += reset.mirror.query(reset.mirror.sink, "SELECT a::text FROM slotkeeper_audit a")
    assert "asked by ***" in str(kept) and secret not in str(kept)
