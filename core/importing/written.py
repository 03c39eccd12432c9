"""Write the configuration of what was pasted: servers, jobs and channels, with a comment for each option.

A refused option is an error in its place: as the key that the configuration rejects, or in the table `undecided`, which
it always rejects. The text therefore loads only after each refusal has been resolved. A password is never written;
`password_file` takes its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from slotkeeper.core.config import keys, values
from slotkeeper.core.config.check import MASK, UNDECIDED
from slotkeeper.core.config.keys import REQUIRED
from slotkeeper.core.config.masking import maskable
from slotkeeper.core.domain.text import safe, see
from slotkeeper.core.importing.options import read_end
from slotkeeper.core.importing.pasted import CANAL, Fate, Flow, Option, Pasted, Remark, Table, plain, wrong
from slotkeeper.core.importing.rules import ADDRESSES, BINLOG, JOB, RETRY, SERVER, SINK_OPTIONS, End, Line
from slotkeeper.core.sinks.registry import traits as sink_traits
from slotkeeper.core.sources.registry import traits as source_traits

TEXTS = 2_000_000
"""Offset of the second text's line numbers, and half of that of the third; no text has that many lines."""
_PLACE = ("host", "port", "database", "user", "http_port")
_HEAD = """\
# Written by `slotkeeper import`: each option of the text, and its result. A refused option is an
# error in its place: resolve it, and remove the line. Every other key, with its default: config.example.toml
"""
_SPARK_LOCAL = re.compile(r"[1-9]\d{0,2}")
_PIPELINE_NOTES = (
    (("execution.checkpointing.", "state."), "positions are stored with the rows; there are no checkpoints"),
    (("restart-strategy",), "[jobs.X.retry] sets the waits between retries"),
    (("table.exec.mini-batch.", "table.exec.resource.", "table.exec.state."), "a channel has no aggregation"),
    (("sql-client.", "table.dml-sync", "taskmanager.", "jobmanager.", "pipeline.operator-chaining"), "Flink's own"),
)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that the caller names instead of the text's; `kind` is empty for the text's kind."""

    kind: str
    host: str
    port: int
    database: str
    user: str
    password_file: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller decides: the servers, and the place of the progress rows."""

    source: Server | None = None
    sink: Server | None = None
    store: Server | None = None
    secrets: Collection[str] = ()
    files: tuple[str, ...] = ("",)
    """The names of the texts, for comments."""


@dataclass(frozen=True, slots=True)
class Made:
    """A configuration and what became of each option. `text` loads only if `refused` is empty."""

    text: str
    remarks: tuple[Remark, ...]

    @property
    def refused(self) -> tuple[Remark, ...]:
        return tuple(one for one in self.remarks if one.fate is Fate.REFUSED)


@dataclass(slots=True)
class _Job:
    name: str
    source: str
    sink: str
    flows: list[tuple[Flow, End, End]]
    lines: dict[str, list[Line]]
    together: int


@dataclass(slots=True)
class _Draft:
    """The configuration while it is written."""

    given: Given
    servers: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    named: dict[tuple[object, ...], str] = field(default_factory=dict)
    jobs: list[_Job] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)


def configuration(pasted: Pasted, given: Given) -> Made:
    """Return the configuration; raises ConfigError if the text contains no pipeline at all."""
    flows = list(pasted.flows) or [Flow(table, None, table.line) for table in pasted.tables if _reads(table)]
    if not flows:
        refused = [one for one in pasted.remarks if one.fate is Fate.REFUSED]
        if refused:
            raise wrong(refused[0].line % TEXTS, f"{refused[0].what}: {refused[0].text}")
        raise wrong(1, "no pipeline was found", "known: Flink SQL, CREATE SYNC, canal, Debezium, holo-client")
    draft = _Draft(given)
    settings = [_setting(one) for one in pasted.settings]
    name = next((line.value for line in settings if line.key == "name"), "")
    for flow in flows:
        _flow(draft, flow, str(name))
    spark = next((line for line in settings if line.key == "master"), None)
    lines = [_HEAD.rstrip(), *_texts(given.files)]
    rest = [*pasted.remarks, *(Remark(t.line, "CREATE TABLE", Fate.UNNEEDED, "no statement uses it")
            for t in pasted.tables if pasted.flows)]  # fmt: skip
    draft.remarks += rest
    undecided = [Line(one) for one in rest if one.fate is Fate.REFUSED]
    lines += [text for one in rest if one.fate is not Fate.REFUSED for text in _rendered(Line(one))]
    for line in settings:
        if line.key == "name":
            lines += [f"# {_at(line.remark.line)}: {line.remark.what}: taken: the job's name"]
        elif line.remark.fate is Fate.UNNEEDED:
            lines += _rendered(line)
    draft.remarks += [line.remark for line in settings]
    for section in draft.servers.values():
        lines += ["", *section]
    for number, job in enumerate(draft.jobs):
        more = [*undecided, *(one for one in settings if one.remark.fate is Fate.REFUSED)] if number == 0 else []
        lines += ["", *_written(draft, job, more)]
        if spark is not None:
            lines += ["", f"[jobs.{job.name}.spark]", *_rendered(spark)]
    text = "\n".join(lines) + "\n"
    for secret in sorted(
        filter(maskable, given.secrets), key=len, reverse=True
    ):  # in a name or a condition, by mistake
        text = text.replace(secret, MASK).replace(_toml(secret)[1:-1], MASK)
    return Made(text, tuple(draft.remarks))


def _reads(table: Table) -> bool:
    """Return whether a table that no statement uses can be a source."""
    return (table.connector in ("dws", "hologres") and table.option("binlog") == "true") or table.connector in (
        "mysql-cdc", CANAL,
    )  # fmt: skip


def _texts(files: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(files):
        if len(files) > 1:
            yield f"# text {number + 1}: {safe(name, 80)}"


def shifted(found: Pasted, number: int) -> Pasted:
    """Return what the text `number` contains, with its lines counted from `number` times TEXTS."""
    by = number * TEXTS

    def moved(one: object) -> object:
        if isinstance(one, tuple):
            return tuple(moved(each) for each in one)
        if isinstance(one, Option | Remark):
            return replace(one, line=one.line + by)
        if isinstance(one, Table):
            return replace(one, line=one.line + by, options=moved(one.options))  # type: ignore[arg-type]
        if isinstance(one, Flow):
            ends = {name: moved(getattr(one, name)) for name in ("source", "target", "remarks")}
            return replace(one, line=one.line + by, **ends)  # type: ignore[arg-type]
        return one

    parts = (moved(part) for part in (found.flows, found.tables, found.settings, found.remarks))
    return Pasted(*parts) if by else found  # type: ignore[arg-type]


def _setting(option: Option) -> Line:
    """Return what becomes of a setting of the whole pipeline."""
    name = option.name.lower()

    def line(fate: Fate, text: str = "", key: str = "", value: object = None) -> Line:
        what = name if re.fullmatch(r"[a-z][a-z0-9.\-]{0,79}", name) else "SET"
        return Line(Remark(option.line, what, fate, text), key, value)

    if name == "pipeline.name":
        return line(Fate.TAKEN, "the job's name", "name", option.value)
    if name == "parallelism.default" and _SPARK_LOCAL.fullmatch(option.value):
        return line(Fate.TAKEN, "tasks at once", "master", f"local[{option.value}]")
    if name == "execution.runtime-mode":
        if option.value.lower() == "streaming":
            return line(Fate.UNNEEDED, "as here")
        return line(Fate.REFUSED, "for one copy, set binlog = false in [jobs.X.binlog]")
    for prefixes, text in _PIPELINE_NOTES:
        if name.startswith(prefixes):
            return line(Fate.UNNEEDED, text)
    return line(Fate.REFUSED, "is a setting of Flink without a key here; remove it")


# -- a flow: its two servers, its job and its channel ---------------------------------------------------------------


def _flow(draft: _Draft, flow: Flow, name: str) -> None:
    source = _end(flow.source, True, draft.given)
    sink = _end(flow.target, False, draft.given)
    if flow.latest:
        option = Option("pgxc_register_full_sync_point", "", flow.line)
        source.take(JOB, "start", "latest", option, "the target already contains the rows")
    _place(draft, source, draft.given.source, "source")
    _place(draft, sink, draft.given.sink, "sink")
    ends = (_server(draft, source, "source"), _server(draft, sink, "sink"))
    _names(flow, source, sink)
    _claims(draft, source, sink, *ends)
    lines: dict[str, list[Line]] = {
        part: _once([*source.lines.get(part, ()), *sink.lines.get(part, ())])
        for part in (JOB, BINLOG, SINK_OPTIONS, RETRY)
    }
    same = [
        job for job in draft.jobs
        if job.together and job.together == flow.together and (job.source, job.sink) == ends
        and _taken(job.lines) == _taken(lines)
        and not any(source.name == one.name or sink.name == two.name for _, one, two in job.flows)
    ]  # fmt: skip
    if same:
        same[0].flows.append((flow, source, sink))
        for part, each in lines.items():
            there = same[0].lines[part]
            new = [
                one for one in each if one.remark.fate is Fate.REFUSED and one.remark not in [x.remark for x in there]
            ]
            known = {one.key for one in there}
            there += [Line(one.remark) if one.key in known else one for one in new]
        return
    free = _free(name if not draft.jobs else "", sink.name or source.name, {job.name for job in draft.jobs})
    draft.jobs.append(_Job(free, *ends, [(flow, source, sink)], lines, flow.together))


def _claims(draft: _Draft, source: End, sink: End, source_server: str, sink_server: str) -> None:
    """Refuse a target and a slot that an earlier flow uses: the configuration allows both once."""
    for job in draft.jobs:
        for _, one, two in job.flows:
            if job.sink == sink_server and sink.name and two.name == sink.name:
                text = f"{safe(sink.name, 80)} is already written from {safe(one.name, 80)}; write another target"
                sink.refuse(Option("table", "", sink.table.line), text)
            slot = _slot(source)
            if job.source == source_server and one.name == source.name and slot and slot == _slot(one):
                text = f"slot {safe(slot, 80)} is used for {safe(two.name, 80)} too; write another slot"
                source.refuse(Option("binlogSlotName", "", source.table.line), text)


def _slot(source: End) -> str:
    return next((str(line.value) for line in source.lines.get(BINLOG, ()) if line.key == "binlog_slot_name"), "")


def _end(table: Table | None, as_source: bool, given: Given) -> End:
    """Return one end; an end that the text does not contain has only the caller's values."""
    if table is not None:
        return read_end(table, as_source, given.secrets)
    server = given.source if as_source else given.sink
    return End(Table("", "", ()), (server.kind or "postgres") if server and not as_source else "")


def _place(draft: _Draft, end: End, server: Server | None, role: str) -> None:
    """Complete the address of an end, from the caller's server if there is one; refuse what is missing."""
    here = Option(role, "", end.table.line)
    if server is not None:
        end.kind = server.kind or end.kind
        kept = []
        for line in end.lines.get(SERVER, ()):
            if line.key in _PLACE or plain(line.remark.what) in ADDRESSES:
                draft.remarks.append(replace(line.remark, fate=Fate.UNNEEDED, text=f"--{role} replaces it"))
            else:
                kept.append(line)
        end.lines[SERVER] = kept
        for key in ("host", "port", "database", "user"):
            value = getattr(server, key)
            if value and end.kind and key in _keys(end, role):
                end.take(SERVER, key, value, Option(f"--{role}", "", end.table.line))
    if not end.kind:
        return
    refused = any(line.remark.fate is Fate.REFUSED for line in end.lines.get(SERVER, ()))
    for key, model in _keys(end, role).items():
        if model.default is REQUIRED and not end.sets(SERVER, key) and not refused:
            end.refuse(replace(here, name=key), f"is not in the text; write it, or give --{role}", SERVER)
    if role == "sink" and not sink_traits(end.kind).is_store:
        if draft.given.store is not None:
            end.take(SERVER, "progress_store", "progress", replace(here, name="--store"))
            _store(draft, draft.given.store)
        else:
            text = "a sink of this kind cannot store progress rows; give --store, or the name of a [sinks.X]"
            end.refuse(replace(here, name="progress_store"), text, SERVER)


def _keys(end: End, role: str) -> keys.Section:
    traits = source_traits(end.kind) if role == "source" else sink_traits(end.kind)
    return {name: key for name, key in keys.SERVERS[traits.server_keys].keys.items() if name in _PLACE}


def _store(draft: _Draft, store: Server) -> None:
    lines = ["[sinks.progress]", f"kind = {_toml(store.kind or 'postgres')}"]
    lines += [f"{key} = {_toml(getattr(store, key))}" for key in ("host", "port", "database", "user")]
    lines.append(f"password_file = {_toml(store.password_file or 'progress.password')}")
    draft.servers["sinks", "progress"] = lines


def _server(draft: _Draft, end: End, role: str) -> str:
    """Return the name of the entry of an end's server; the same server has one entry."""
    if not end.kind:
        return ""
    table = f"{role}s"
    lines = end.lines.get(SERVER, [])
    identity = (role, end.kind, *((line.key, str(line.value)) for line in lines), bool(end.password))
    draft.remarks += [line.remark for line in lines if identity not in draft.named]
    if identity in draft.named:
        return draft.named[identity]
    server = draft.given.source if role == "source" else draft.given.sink
    name = _free(end.kind, end.kind, {taken for group, taken in draft.servers if group == table})
    draft.named[identity] = name
    text = [f"[{table}.{name}]", f"{'dialect' if role == 'source' else 'kind'} = {_toml(end.kind)}"]
    text += [each for line in _once(lines) for each in _rendered(line)]
    file = server.password_file if server else ""
    if end.password:
        text.append(f"# {_at(end.password)}: the password is not repeated: write it to this file, mode 0600")
        draft.remarks.append(Remark(end.password, "password", Fate.TAKEN, "as password_file"))
    if end.password or file or server:
        text.append(f"password_file = {_toml(file or f'{role}_{name}.password')}")
    draft.servers[table, name] = text
    return name


def _names(flow: Flow, source: End, sink: End) -> None:
    """Set the names of both tables as schema.table; refuse a name that a channel cannot have."""
    for end, read in ((source, values.table), (sink, values.target)):
        if end is sink and not end.name and flow.target is None:
            end.name = source.name
        default = end.schema or ("" if end.kind in ("mysql", "doris") else "public")
        if end.name and "." not in end.name.replace("\\.", ".") and default:
            end.name = f"{default}.{end.name}"
        if not end.name and not end.kind:
            continue
        if not end.name and end.table.connector:
            end.refuse(Option("table", "", end.table.line), "the text names no table; write schema.table")
            continue
        pattern = end is source and re.search(r"[*+?|(){}\[\]^$\\<>=,]", end.name)
        try:
            read(end.name) if end.name else None
        except values.BadValue:
            pattern = True  # type: ignore[assignment]
        if pattern:
            text = "is a pattern or no name; write one channel for each table, as schema.table"
            end.refuse(Option("table", "", end.table.line), text)
            end.name = ""


def _once(lines: Iterable[Line]) -> list[Line]:
    """Return the lines with each key once; a second value of a key is refused."""
    seen: dict[str, object] = {}
    found = []
    for line in lines:
        if not line.key or seen.setdefault(line.key, line.value) is line.value:
            found.append(line)
            continue
        same = seen[line.key] == line.value
        text = f"{line.key} is set above" if same else f"{line.key} has another value above; keep one"
        found.append(Line(replace(line.remark, fate=Fate.UNNEEDED if same else Fate.REFUSED, text=text)))
    return found


def _taken(lines: dict[str, list[Line]]) -> set[tuple[str, str, str]]:
    return {(part, line.key, str(line.value)) for part, each in lines.items() for line in each if line.key}


def _free(wanted: str, table: str, taken: Collection[str]) -> str:
    """Return a name for an entry of the configuration that no other entry has."""
    words = "_".join(re.findall("[A-Za-z0-9]+", wanted or table.rpartition(".")[2]))
    base = (words if words[:1].isalpha() else f"job_{words}")[: values.NAME_MAX - 4].strip("_")
    return next(name for name in (base, *(f"{base}_{n}" for n in range(2, 10_000))) if name not in taken)


# -- text -------------------------------------------------------------------------------------------------------------


def _written(draft: _Draft, job: _Job, more: Sequence[Line]) -> list[str]:
    """Return the lines of a job. Its own tables come first, so that each line is in its table."""
    flow = job.flows[0][0]
    text = [f"[jobs.{job.name}]"]
    if job.source:
        text.append(f"source = {_toml(job.source)}")
    if job.sink:
        text.append(f"sink = {_toml(job.sink)}")
    refused = list(more)
    for role, name, end in (("source", job.source, flow.source), ("sink", job.sink, flow.target)):
        if not name and end is None and not (flow.remarks and flow.source is flow.target):
            what = f"the text contains no {role}; give --{role}, or write [{role}s.X] and its name here"
            refused.append(Line(Remark(flow.line, role, Fate.REFUSED, what)))
    refused += [Line(one) for each, _, _ in job.flows for one in each.remarks]
    draft.remarks += [line.remark for line in refused if line not in more]
    for part in (JOB, BINLOG, SINK_OPTIONS, RETRY):
        lines = [*job.lines[part], *(refused if part == JOB else ())]
        draft.remarks += [line.remark for line in job.lines[part]]
        if part != JOB and lines:
            text += ["", f"[jobs.{job.name}.{part}]"]
        text += [each for line in lines for each in _rendered(line)]
    for each, source, sink in job.flows:
        text += _channel(job.name, each, source, sink)
    return text


def _channel(job: str, flow: Flow, source: End, sink: End) -> list[str]:
    if flow.view:
        return view(job, flow, sink.name)
    text = ["", f"[[jobs.{job}.channels]]  # {_at(flow.line)}"]
    text += [f"from = {_toml(source.name)}"] if source.name else []
    text += [f"into = {_toml(sink.name)}"] if sink.name else []
    columns = flow.columns or tuple((n, n) for n in source.table.columns if n not in source.table.derived)
    if columns:
        pairs = ", ".join(f"{_key(one)} = {_toml(two)}" for one, two in columns)
        text.append(f"columns = {{ {pairs} }}  # the declared columns, in order; without this line: all, by name")
    if flow.compute:
        pairs = ", ".join(f"{_key(name)} = {_toml(sql)}" for name, sql in flow.compute)
        text.append(f"compute = {{ {pairs} }}  # with the answers of PostgreSQL: {see('expressions')}")
    if flow.where:
        text.append(f"where = {_toml(flow.where)}")
    return text


def view(job: str, flow: Flow, into: str) -> list[str]:
    """Return the view of a statement that joins or groups, as comments.

    Its SELECT has the names and the dialect of the text, and a view reads the job's targets with those of PostgreSQL:
    a user has to decide.
    """
    return [
        f"# [[jobs.{job}.views]]",
        f"# into = {_toml(into)}",
        f"# sql = {_toml(flow.view)}",
    ]


def _rendered(line: Line) -> list[str]:
    """Return the line of an option with its comment."""
    remark = line.remark
    text = f": {remark.text}" if remark.text else ""
    at = _at(remark.line)
    if remark.fate is Fate.TAKEN and line.value is not None:
        what = remark.what if remark.what.startswith("--") else f"{at}: {remark.what}"
        return [f"{line.key} = {_toml(line.value)}  # {what}{text}"]
    comment = f"# {at}: {remark.what}: {remark.fate.value}{text}"
    if remark.fate is not Fate.REFUSED:
        return [comment]
    key = line.key or f"{UNDECIDED}.{_key(f'{remark.what} ({at})')}"
    return [comment, f"{key} = {_toml('decide')}"]


def _at(line: int) -> str:
    number, place = divmod(line, TEXTS)
    return f"text {number + 1}, line {place}" if number else f"line {place}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: object) -> str:
    """Return a value as TOML writes it.

    >>> _toml(True), _toml(["a"]), _toml('say "x"')
    ('true', '["a"]', '"say \\\\"x\\\\""')
    """
    return escaped(json.dumps(value, ensure_ascii=False))


def escaped(text: str, ascii_only: bool = False) -> str:
    """Return a text of TOML in which characters that a terminal cannot show, except newlines, are escapes of TOML.

    >>> escaped('"a\\u2028b \\u00e9"'), escaped('"\\u00e9"', ascii_only=True)
    ('"a\\\\u2028b \u00e9"', '"\\\\u00e9"')
    """

    def one(character: str) -> str:
        if character == "\n" or (character.isprintable() and (character.isascii() or not ascii_only)):
            return character
        number = ord(character)
        return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"

    return text if text.isascii() and text.isprintable() else "".join(map(one, text))
