"""`slotkeeper init`: set up a first job: ask a few questions, write and check a configuration, and start the job.

Every answer can also be given as an option, for scripts.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from slotkeeper.console.cli import completion, context, diagnostics, first_config, output
from slotkeeper.console.cli.first_config import (
    FORM,
    NAMES,
    Place,
    Server,
    Writer,
    form_of,
    free,
    place_of,
    text_of,
    write_new,
)
from slotkeeper.console.commands import jobs
from slotkeeper.console.tui import startup
from slotkeeper.core import ownership
from slotkeeper.core.config import values
from slotkeeper.core.config.load import default_path, find, load_usable
from slotkeeper.core.config.model import NoConfig
from slotkeeper.core.domain.endpoint import loopback
from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.domain.text import safe, see, typed
from slotkeeper.core.errors import Busy, ConfigError
from slotkeeper.core.ownership import make_folder
from slotkeeper.core.services import doctor
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources

app = typer.Typer(help="Write a configuration for a first job, after a few questions.", add_completion=False)

_FIRST_SINK = next(iter(sinks.KINDS))
_PLAN = """\
This creates your first job, which keeps a sink table equal to a source table.
  Writes   {path}
           and, next to it, a file for each password that you type
  Checks   both servers; this changes nothing there
  Changes  nothing on a server until you start the job. The job then creates
           its target and progress tables, and a slot if the source has slots
  Leave    with Ctrl-C at any question; nothing that you typed is stored
"""
_LATE = (
    f"not every configuration could be read within {first_config.READING_SECONDS:.0f} s: another job may already have"
    " a proposed name or target"
)
_SAID = (Level.FAIL, Level.WARN)


def _kinds() -> list[str]:
    """Return the sink kinds that store their own progress rows."""
    return [kind for kind in sinks.KINDS if sinks.traits(kind).is_store]


Source = Annotated[str, typer.Option("--source", metavar=FORM, help="the server to read from")]
Sink = Annotated[str, typer.Option("--sink", metavar=FORM, help="the server to write to")]
Table = Annotated[str, typer.Option("--table", metavar="TABLE", help="source table, schema.table")]
Into = Annotated[
    str, typer.Option("--into", metavar="TABLE", help="target table, schema.table; the job creates a missing one")
]
Name = Annotated[str, typer.Option("--job", metavar="NAME", help="name of the job and of its slot")]
SourcePassword = Annotated[
    Path | None, typer.Option("--source-password-file", help="file with the password", autocompletion=completion.files)
]
SinkPassword = Annotated[
    Path | None, typer.Option("--sink-password-file", help="file with the password", autocompletion=completion.files)
]
SourceCertificate = Annotated[
    Path | None, typer.Option("--source-rootcert", help="file with its CA certificate", autocompletion=completion.files)
]
SinkCertificate = Annotated[
    Path | None, typer.Option("--sink-rootcert", help="file with its CA certificate", autocompletion=completion.files)
]
Dialect = Annotated[
    str,
    typer.Option(
        "--dialect",
        metavar="KIND",
        help=f"kind of source: {', '.join(sources.KINDS)}",
        autocompletion=lambda: list(sources.KINDS),
    ),
]
SinkKind = Annotated[str, typer.Option("--sink-kind", metavar="NAME", help="kind of sink", autocompletion=_kinds)]
Start = Annotated[bool | None, typer.Option("--start/--no-start", help="start the job or not (default: ask)")]
Open = Annotated[bool, typer.Option("--open", help="open the console at the end")]


@app.command()
def init(
    ctx: typer.Context,
    source: Source = "",
    source_password: SourcePassword = None,
    source_certificate: SourceCertificate = None,
    sink: Sink = "",
    sink_password: SinkPassword = None,
    sink_certificate: SinkCertificate = None,
    table: Table = "",
    into: Into = "",
    job: Name = "",
    dialect: Dialect = "",
    sink_kind: SinkKind = _FIRST_SINK,
    start: Start = None,
    open_console: Open = False,
) -> None:
    """Write a configuration for a first job, check both servers, and start the job.

    It first prints what it changes, then asks for each value that no option gives. It never overwrites a file. Exit
    code 1: a check failed, or the job failed or has not started.
    """
    shared = context.of(ctx)
    path = _file(shared)
    _refuse_existing(path)
    output.block(_PLAN.format(path=path))
    _refuse_sink(sink_kind)
    asked = _Asked(path.absolute().parent)
    dialect = _answer(f"kind of source ({', '.join(sources.KINDS)})", "--dialect", dialect, among=sources.KINDS)
    first = asked.server("source", dialect, source, source_password, source_certificate)
    table = _readable("source table (schema.table)", "--table", table, values.table)
    second = asked.server("sink", sink_kind, sink, sink_password, sink_certificate)
    own = table.rpartition(".")[2]
    others = first_config.known(shared.env, path)
    if not others.complete:
        diagnostics.warn(_LATE)
    targets, names = others.targets(second.place), others.names(first.place)
    into = _free("target table (schema.table)", "--into", into, values.target, f"mart.{own}", targets, "writes it")
    job = _free(
        "name of the job", "--job", job, lambda value: values.section_name(str(value)), _name_of(own), names,
        "has this name or slot",
    )  # fmt: skip
    try:
        asked.write()
        text = text_of(first, second, job, table, into)
        load_usable(path, shared.env, text=text).whole()  # the text is validated before the file is written
        _new(path, text)
    except BaseException:
        asked.forget()
        raise
    output.line(f"written: {path}")
    if not _allowed(path):
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))
    begun = _go_on(ctx, job, start)
    if open_console:
        raise typer.Exit(startup.open_console(shared))
    output.line("open the console: slotkeeper")
    raise typer.Exit(int(diagnostics.ExitCode.FINE if begun else diagnostics.ExitCode.FAILED))


def _go_on(ctx: typer.Context, job: str, start: bool | None) -> bool:
    """Start the job if requested, otherwise print how to. Return False if it was started and is not running yet."""
    if start is None:
        start = typer.confirm("start it now?", default=True, err=True) if sys.stdin.isatty() else False
    if start:
        try:
            jobs.start(ctx, job)
        except Busy as error:  # a server does not answer or the start makes no progress; the console shows which
            diagnostics.warn(f"not started yet: {diagnostics.with_hint(error)}")
            return False
    else:
        output.line(f"start it: `slotkeeper jobs start {typed(job)}`")
    return True


@dataclass(frozen=True, slots=True)
class _Asked:
    """The questions about a server. Typed passwords are written to `folder` after the last question."""

    folder: Path
    typed: dict[Path, str] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)

    def write(self) -> None:
        """Write the typed passwords. Raises ConfigError."""
        for file, password in self.typed.items():
            _new(file, f"{password}\n")
            self.written.append(file)

    def forget(self) -> None:
        """Delete the written passwords, because no configuration uses them."""
        for file in self.written:
            file.unlink(missing_ok=True)

    def server(self, name: str, kind: str, place: str, password: Path | None, certificate: Path | None) -> Server:
        """Return the source or the sink, prompting for each value that no option gives."""
        found = self._place(name, place, form_of(kind) if name == "source" else FORM)
        file = password.absolute() if password is not None else self._password(name, found)
        if certificate is None and not loopback(found.host) and sys.stdin.isatty():
            given = _ask(f"{name}: file with its CA certificate (empty: encrypted, not verified)", "")
            certificate = Path(given).expanduser() if given else None
        return Server(kind, found, file, certificate.absolute() if certificate is not None else None)

    def _place(self, name: str, given: str, form: str) -> Place:
        while True:
            text = _answer(f"{name} ({form})", f"--{name}", given)
            try:
                return place_of(text, form)
            except ConfigError as error:
                if given:
                    raise
                diagnostics.note(diagnostics.with_hint(error))

    def _password(self, name: str, place: Place) -> Path:
        given = _answer(
            f"{name}: file with the password of {place.user} (empty: type it)", f"--{name}-password-file", "", ""
        )
        if given:
            return Path(given).expanduser().absolute()
        file = self.folder / f"{NAMES[name]}.password"
        if file.exists():
            raise ConfigError(f"{file} already exists", f"pass it as `--{name}-password-file`, or move it away")
        self.typed[file] = _unseen(f"{name}: password of {place.user}: ")
        return file


def _unseen(question: str) -> str:
    """Prompt for a password with getpass, because Typer prints the question before echo is off."""
    try:
        return getpass(question)
    except EOFError:
        raise KeyboardInterrupt from None


def _answer(
    question: str, option: str, given: str, default: str | None = None, among: Iterable[str] | None = None
) -> str:
    """Return the given value, otherwise the typed answer, which must be in `among` if that is given.

    Raises ConfigError if no terminal is available for the question, or if the option's value is not in `among`.
    """
    while True:
        if not given and not default and not sys.stdin.isatty():
            hint = "`slotkeeper init --help` lists the options"
            raise ConfigError(f"{option} is required: no terminal for a prompt", hint)
        found = given or (_ask(question, default) if sys.stdin.isatty() else str(default))
        if among is None or found in among:
            return found
        _again(f"unknown kind {found!r} (known: {', '.join(among)})", f"{option} KIND" if given else "", bool(given))


def _name_of(table: str) -> str:
    """Return a job name derived from a table name, short enough to append a number.

    >>> _name_of("Order Items"), _name_of("2026"), _name_of("\u8ba2\u5355")
    ('order_items', 'job_2026', 'job')
    """
    words = "_".join(re.findall("[a-z0-9]+", table.lower()))
    return (words if words[:1].isalpha() else f"job_{words}")[: values.NAME_MAX - 4].strip("_")


def _readable(question: str, option: str, given: str, read: values.Reader, default: str | None = None) -> str:
    """Return an answer that is valid in a configuration."""
    while True:
        found = _answer(question, option, given, default)
        try:
            read(found)
            return found
        except values.BadValue as error:
            _again(f"{option} {safe(found, 80)!r}: {error}", "", bool(given))


def _free(
    question: str, option: str, given: str, read: values.Reader, proposed: str, taken: Mapping[str, Writer], has: str
) -> str:
    """Return a valid answer that no other job uses; the proposed default is not used by another job either."""
    while True:
        found = _readable(question, option, given, read, free(proposed, taken))
        if found not in taken:
            return found
        other = taken[found]
        what = f"{found}: job {other.job} already {has} (configuration {other.config})"
        _again(what, f"choose another one, such as {free(found, taken)}", bool(given))


def _again(what: str, hint: str, given: bool) -> None:
    """Print the error before the question is repeated. Raises ConfigError if the answer came from an option."""
    error = ConfigError(what, hint)
    if given or not sys.stdin.isatty():
        raise error
    diagnostics.note(diagnostics.with_hint(error))


def _ask(question: str, default: str | None) -> str:
    return str(typer.prompt(question, default=default, err=True, show_default=bool(default))).strip()


def _file(shared: context.Invocation) -> Path:
    """Return the path of the configuration that every other command would read with these options."""
    try:
        return find(shared.config, shared.env)
    except NoConfig:
        return default_path(shared.env)


def _refuse_existing(path: Path) -> None:
    """Reject an existing file, or a folder that cannot store a configuration, before the first question."""
    if os.path.lexists(path):
        raise ConfigError(
            f"configuration {path}: already exists", "add a job to it, or choose another file with `--config FILE`"
        )
    folder = next(one for one in path.absolute().parents if os.path.lexists(one))
    try:
        new = ownership.Part(str(path), ownership.Kind.FILE, os.geteuid(), os.getegid(), 0o600, "")
        ownership.refuse([*ownership.follow(folder), new], f"configuration {path}")
    except ownership.NotOurs as error:
        raise ConfigError(f"{error.message}: its commands would run as this user", error.hint) from None
    except OSError as error:
        raise _unwritable(path, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(path, PermissionError(errno.EACCES, f"folder {folder} cannot be written"))


def _refuse_sink(kind: str) -> None:
    """Reject an unknown kind, or a kind that needs a second sink, which the written file does not have."""
    if kind not in sinks.KINDS:
        raise ConfigError(f"unknown kind {safe(kind, 80)!r} (known: {', '.join(_kinds())})", "--sink-kind KIND")
    if kind not in _kinds():
        what = f"a sink of kind {kind} needs a second sink for its progress rows, which init does not configure"
        raise ConfigError(what, f"write the configuration yourself: {see('delivery', 'Sinks with a separate store')}")


def _new(path: Path, text: str) -> None:
    try:
        make_folder(path.parent)
        write_new(path, text)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{path} cannot be written: {error.strerror or error}", "choose another file with `--config FILE`"
    )


def _allowed(path: Path) -> bool:
    """Check both servers, and print failed checks and warnings. Return False if any check failed."""
    loaded = load_usable(path, os.environ)
    found: list[Finding] = []
    for source in loaded.sources.values():
        found += doctor.check_source(loaded, source)
    for sink in loaded.sinks.values():
        found += doctor.check_sink(loaded, sink)
    for one in found:
        if one.level in _SAID:
            output.line(f"{one.level.value:<7}  {one.place}: {one.text}")
    failed = [one for one in found if one.level is Level.FAIL]
    if failed:
        hint = "fix them on the server or in the file, then run: `slotkeeper doctor`"
        diagnostics.note(f"{len(failed)} of {len(found)} checks failed; {hint}")
        return False
    output.line(f"both servers passed all {len(found)} checks")
    return True
