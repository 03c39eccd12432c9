"""`slotkeeper config check` and `slotkeeper config show`."""

from __future__ import annotations

from typing import Annotated

import typer

from slotkeeper.console.cli import context, diagnostics, output
from slotkeeper.console.cli.select import OneJson
from slotkeeper.console.commands import configured
from slotkeeper.core.config import secrets
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.text import many
from slotkeeper.core.state.folder import StateFolder

app = typer.Typer(help="Check and show the configuration.")


@app.command()
def check(ctx: typer.Context, as_json: OneJson = False) -> None:
    """Read the configuration and report whether it is valid; connects to no server."""
    loaded = context.of(ctx).load()
    StateFolder.existing(loaded.state_dir)
    # warn about passwords that are too simple to mask in server messages; password commands are not run
    places = {f"sources.{name}": entry.endpoint.password for name, entry in loaded.sources.items()}
    places |= {f"sinks.{name}": entry.endpoint.password for name, entry in loaded.sinks.items()}
    places |= {f"jobs.{name}.spark": job.spark.secret for name, job in loaded.jobs.items()}
    plain = [f"{place}: {said}" for place, ref in places.items() if (said := secrets.too_plain(ref))]
    refused, warnings = configured.refused(loaded), [*loaded.warnings, *plain]
    if as_json:
        output.as_json(
            {
                "ok": not refused,
                "path": loaded.path,
                "sources": list(loaded.sources),
                "sinks": list(loaded.sinks),
                "jobs": list(loaded.jobs),
                "refused": refused,
                "warnings": warnings,
            }
        )
    else:
        for warning in warnings:
            diagnostics.warn(warning)
    _refuse(loaded)
    if not as_json:
        counts = ", ".join(
            many(len(found), word)
            for found, word in ((loaded.sources, "source"), (loaded.sinks, "sink"), (loaded.jobs, "job"))
        )
        output.line(f"{loaded.path}: valid ({counts})", context.of(ctx).ascii_only)
        for name, job in loaded.jobs.items():
            for block in job.patterns:
                text = f"jobs.{name}: {block.source} is a pattern; `slotkeeper doctor` lists its tables"
                output.line(text, context.of(ctx).ascii_only)


@app.command()
def show(
    ctx: typer.Context,
    origin: Annotated[bool, typer.Option("--origin", help="also show where each value came from")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object, keys with values and origins")] = False,
) -> None:
    """Show every effective value of the valid configuration; secrets appear as references only."""
    shared = context.of(ctx)
    loaded = shared.load()
    if as_json:
        settings = {
            setting.key: {"value": setting.value, "origin": setting.origin.layer, "place": setting.origin.place}
            for setting in loaded.settings()
        }
        output.as_json({"path": loaded.path, "settings": settings})
    for setting in () if as_json else loaded.settings():
        came = f"  # {setting.origin.text}" if origin else ""
        value = "(not set)" if setting.value is None else output.json_text(setting.value)
        output.line(f"{setting.key} = {value}{came}", shared.ascii_only)
    _refuse(loaded)


def _refuse(loaded: Loaded) -> None:
    """Write the error of every rejected job and, if there are any, exit with the code for an invalid configuration."""
    codes = [diagnostics.usage(str(error), error.hint) for error in loaded.refused.values()]
    if codes:
        raise typer.Exit(int(codes[0]))
