"""`slotkeeper audit`: who changed which slot or job, why, and with what result, and whether the audit is unaltered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.output import SHORT, both
from slotkeeper.console.cli.select import OneJson, Reason, StateDir
from slotkeeper.core.domain.text import many
from slotkeeper.core.errors import Refused
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder

if TYPE_CHECKING:
    from slotkeeper.core.services.audit import Proof, SinkProof

app = typer.Typer(help="Who changed what, when and why.")


@app.callback()
def audit() -> None:
    """Who changed what, when and why."""


@app.command("list")
def list_lines(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="number of lines, newest first")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of text, with the result per DN")] = False,
    state_dir: StateDir = None,
) -> None:
    """List the newest lines first: an intent before an action, its outcome after it."""
    audit = Audit(StateFolder.looked_at(select.state_of(ctx, state_dir)[1]))
    found = audit.read(limit)
    if as_json:
        output.as_json({"file": audit.file, "damaged": found.damaged, "lines": [one.as_json() for one in found.lines]})
    else:
        rows = [[both(one.at, SHORT), one.actor.who, one.action, one.what, one.said] for one in found.lines]
        output.table(["at", "who", "action", "what", "result"], rows, select.ascii_only(ctx))
    if found.damaged:
        diagnostics.warn(f"{many(found.damaged, 'line')} of {audit.file} cannot be read")


@app.command()
def export(
    ctx: typer.Context,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="only lines from this time on (RFC 3339)")] = "",
    state_dir: StateDir = None,
) -> None:
    """Print every line as stored, oldest first: one JSON object per line, for journald, syslog or a file."""
    start = select.moment(since) if since else None
    audit = Audit(StateFolder.looked_at(select.state_of(ctx, state_dir)[1]))
    found = audit.stored()
    for line, text in found:
        if line is not None and (start is None or line.at >= start):
            output.stored(text)
    if damaged := sum(line is None for line, _ in found):
        diagnostics.warn(f"{many(damaged, 'line')} of {audit.file} cannot be read")


@app.command()
def accept(ctx: typer.Context, reason: Reason = "", state_dir: StateDir = None) -> None:
    """Accept lines without a hash, from an earlier version, as they are now; compare them with a backup first.

    Refused if the audit differs in any other way, or if a sink does not answer.
    """
    from slotkeeper.core.services.audit import prove  # loads the database driver

    if not reason.strip():
        raise Refused("accepting lines without a hash needs a reason", "--reason TEXT")
    loaded, folder = select.state_of(ctx, state_dir)
    audit = Audit(StateFolder.open(folder))
    proof = prove(audit, loaded)
    lines = many(len(proof.chain.unlinked), "line")
    if proof.altered or proof.unasked:
        why = "was altered" if proof.altered else "was not compared: a sink does not answer"
        raise Refused(f"{audit.file} {why}; nothing was accepted", "`slotkeeper audit verify` shows where")
    if proof.chain.unlinked:
        audit.accept(proof.chain, reason)
    output.line(f"{audit.file}: {lines} accepted", select.ascii_only(ctx))


@app.command()
def verify(ctx: typer.Context, as_json: OneJson = False, state_dir: StateDir = None) -> None:
    """Verify that every line is as written: 0 no difference found, 4 a line differs, 5 a sink does not answer.

    Each line contains the hash of the previous one, and sinks store copies; the output lists what neither can prove.
    """
    from slotkeeper.core.services.audit import prove  # loads the database driver

    loaded, folder = select.state_of(ctx, state_dir)
    audit = Audit(StateFolder.looked_at(folder))
    proof = prove(audit, loaded)
    output.as_json(_as_json(audit, proof)) if as_json else _print(ctx, audit, proof)
    if proof.differs or proof.unasked:
        code = diagnostics.ExitCode.DIFFERENT if proof.differs else diagnostics.ExitCode.UNREACHABLE
        raise typer.Exit(int(code))


def _as_json(audit: Audit, proof: Proof) -> dict[str, object]:
    return {
        "file": audit.file,
        "lines": len(proof.chain.whole),
        "head": proof.chain.whole[-1].digest if proof.chain.whole else None,
        "differs": proof.differs,
        "broken": proof.chain.broken,
        "unlinked": len(proof.chain.unlinked),
        "accepted": proof.chain.accepted,
        "damaged": proof.chain.damaged,
        "sinks": list(map(_sink, proof.sinks)),
        "unproven": proof.unproven,
    }


def _sink(one: SinkProof) -> dict[str, object]:
    """Return the answer of one sink; null if it did not answer."""
    found = one.compared
    return {
        "name": one.name,
        "fault": one.fault or None,
        "hashes": found.heads if found else None,
        "older": found.older if found else None,
        "missing": found.missing if found else None,
    }


def _print(ctx: typer.Context, audit: Audit, proof: Proof) -> None:
    def say(text: str) -> None:
        output.line(text, select.ascii_only(ctx))

    chain = proof.chain
    linked = "hash chain intact" if not chain.unlinked else "some without a hash"
    verdict = "BROKEN" if chain.broken else linked
    say(f"{audit.file}: {many(len(chain.whole), 'line')}, {verdict}")
    for sentence in chain.broken:
        say(f"  {sentence}")
    if chain.unlinked:
        output.paragraph("", f"UNLINKED: {proof.unlinked}", select.ascii_only(ctx))
    for one in proof.sinks:
        if one.compared is None:
            say(f"sink {one.name}: not compared: {one.fault}")
            continue
        found = f"{len(one.compared.missing)} DIFFER" if one.compared.missing else "all match"
        say(f"sink {one.name}: {many(one.compared.heads, 'line')} copied, {found}")
        for sentence in one.compared.missing:
            say(f"  {sentence}")
    if not proof.sinks:
        say("no sink was queried: none is configured here")
    say("not proven:")
    for sentence in proof.unproven:
        say(f"  {sentence}")
