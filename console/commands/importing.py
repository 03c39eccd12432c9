"""`slotkeeper import`: print the configuration of a pipeline that was written for another tool."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from slotkeeper.console.cli import completion, context, diagnostics, output
from slotkeeper.console.cli.first_config import BARE_FORM, FORM, place_of
from slotkeeper.console.commands import doctor
from slotkeeper.core.config import masking
from slotkeeper.core.config.load import load_usable
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.importing import lists, written
from slotkeeper.core.importing.pasted import SIZE_MAX, Fate, Pasted, secrets_in
from slotkeeper.core.importing.written import Given, Made, Server
from slotkeeper.core.sinks import registry as sinks

app = typer.Typer(help="Print the configuration of a pipeline that was written for another tool.", add_completion=False)

STDIN = "-"
_PASTED = Path("imported.toml")
"""The name of the unwritten configuration: files that it names are in the current folder."""

Files = Annotated[
    list[Path] | None, typer.Argument(metavar="[FILE]...", help="files to read; none or -: standard input")
]
Source = Annotated[str, typer.Option("--source", metavar=FORM, help="the source, instead of the one in the text")]
Sink = Annotated[str, typer.Option("--sink", metavar=FORM, help="the sink, instead of the one in the text")]
SinkKind = Annotated[
    str,
    typer.Option("--sink-kind", metavar="KIND", help="kind of --sink", autocompletion=lambda: list(sinks.KINDS)),
]
Store = Annotated[
    str, typer.Option("--store", metavar=FORM, help="where the progress rows are, for a sink that stores none")
]
SourcePassword = Annotated[
    Path | None, typer.Option("--source-password-file", help="file with the password", autocompletion=completion.files)
]
SinkPassword = Annotated[
    Path | None, typer.Option("--sink-password-file", help="file with the password", autocompletion=completion.files)
]
StorePassword = Annotated[
    Path | None, typer.Option("--store-password-file", help="file with the password", autocompletion=completion.files)
]
Check = Annotated[bool, typer.Option("--check", help="also check the configuration and its servers, as doctor does")]


@app.command()
def import_(
    ctx: typer.Context,
    files: Files = None,
    source: Source = "",
    source_password: SourcePassword = None,
    sink: Sink = "",
    sink_password: SinkPassword = None,
    sink_kind: SinkKind = "",
    store: Store = "",
    store_password: StorePassword = None,
    check: Check = False,
) -> None:
    """Print the configuration of a pipeline in Flink SQL or for canal, and how each option was translated.

    Also reads CREATE SYNC of Doris, Debezium's JSON, and the options of holo-client and dws-client. A refused option is
    written as an error, so the configuration is not valid until you decide. Exit code 2: an option was refused, or the
    configuration is not valid; with --check, 1: a check failed.
    """
    if sink_kind and sink_kind not in sinks.KINDS:
        raise ConfigError(f"unknown kind {safe(sink_kind, 80)!r} (known: {', '.join(sinks.KINDS)})", "--sink-kind KIND")
    texts = [_text(file) for file in files or [Path(STDIN)]]
    found, secrets = Pasted(), set[str]()
    for text in texts:  # also those of a text that cannot be read
        secrets |= set(secrets_in(text))
    for secret in secrets:
        masking.remember(secret)
    for number, text in enumerate(texts):
        found = found.plus(written.shifted(lists.read(text), number))
    given = Given(
        _server("source", "", source, source_password),
        _server("sink", sink_kind, sink, sink_password),
        _server("store", "", store, store_password),
        secrets,
        tuple(safe(file.name, 80) for file in files or [Path(STDIN)]),
    )
    made = written.configuration(lists.with_canal(found), given)
    text = made.text.removesuffix("\n")
    if context.of(ctx).ascii_only:
        text = written.escaped(text, ascii_only=True)
    printed = [output.shown(line, limit=2 * SIZE_MAX) for line in text.split("\n")]  # TOML knows no other line end
    output.lines(printed)
    _tell(made)
    _validate(replace(made, text="\n".join(printed) + "\n"), check)


def _text(file: Path) -> str:
    """Return the text of a file or of standard input, at most 1 MiB. Raises ConfigError."""
    name = "standard input" if str(file) == STDIN else safe(file)
    try:
        if str(file) == STDIN:
            raw = sys.stdin.buffer.read(SIZE_MAX + 1)
        else:
            descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as stream:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ConfigError(f"{name}: is not a file")
                raw = stream.read(SIZE_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:  # a NUL character in the path
        raise ConfigError(f"{name}: is not a file path") from None
    if len(raw) > SIZE_MAX:
        raise ConfigError(f"{name}: is larger than 1 MiB, the limit of a configuration")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}: line {line} is not UTF-8 text", "save the text as UTF-8") from None
    if not text.strip():
        raise ConfigError(f"{name}: is empty", "`slotkeeper docs import` has examples")
    for pasted in ("\u200b", "\u00e2\u20ac\u2039", "\u00a0", "\r"):  # what web pages add between statements
        text = text.replace(pasted, " " if pasted == "\u00a0" else "")
    return text


def _server(name: str, kind: str, given: str, password: Path | None) -> Server | None:
    """Return a server that an option names. Raises ConfigError."""
    if not given:
        if password is not None:
            raise ConfigError(f"--{name}-password-file needs --{name}", f"--{name} {FORM}")
        return None
    place = place_of(given, FORM if "/" in given else BARE_FORM)
    file = "" if password is None else str(password.absolute())
    return Server(kind, place.host, place.port, place.database, place.user, file)


def _tell(made: Made) -> None:
    """Write how many options were taken and refused to stderr, and each refusal."""
    counts = [sum(one.fate is fate for one in made.remarks) for fate in Fate]
    diagnostics.note(f"{counts[0]} options taken, {counts[1]} not needed, {counts[2]} refused")
    for one in made.refused:
        number, line = divmod(one.line, written.TEXTS)
        place = f"text {number + 1}, line {line}" if number else f"line {line}"
        diagnostics.note(f"{place}: {one.what}: refused: {one.text}")


def _validate(made: Made, check: bool) -> None:
    """Check the configuration as `config check` does, and with `check` the servers; raises Exit for an error."""
    if made.refused:
        diagnostics.note("the configuration is not valid until you decide about each refused option")
        raise typer.Exit(int(diagnostics.ExitCode.USAGE))
    loaded = load_usable(_PASTED, os.environ, text=made.text)
    codes = [diagnostics.usage(str(error), error.hint) for error in loaded.refused.values()]
    if codes:
        raise typer.Exit(int(codes[0]))
    diagnostics.note(f"valid ({many(len(loaded.jobs), 'job')})")
    failed = 0
    for one in doctor.everywhere(loaded) if check else ():
        failed += one.level is Level.FAIL
        if one.level in (Level.FAIL, Level.WARN):
            diagnostics.note(f"{one.level.value:<7}  {one.place}: {one.text}")
    if failed:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))
