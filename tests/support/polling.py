"""A configuration file for the embedded servers, for commands that read one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slotkeeper.core.domain.endpoint import Endpoint


def server(kind: str, endpoint: Endpoint, more: Sequence[str] = ()) -> str:
    """A `[sources.X]` or `[sinks.X]` for an endpoint whose password, if any, is in a file."""
    what = 'dialect = "dws"' if kind == "sources" else 'kind = "postgres"'
    lines = [
        f"[{kind}.{endpoint.name}]",
        what,
        f'host = "{endpoint.host}"',
        f"port = {endpoint.port}",
        f'database = "{endpoint.database}"',
        f'user = "{endpoint.user}"',
        'sslmode = "disable"',
        *more,
    ]
    if endpoint.password.how:
        lines.append(f'password_{endpoint.password.how} = "{endpoint.password.ref}"')
    return "\n".join(lines) + "\n\n"


def job(
    name: str, slot: str, table: str, target: str, more: Sequence[str] = (), others: Sequence[tuple[str, str]] = ()
) -> str:
    """A `[jobs.X]` with a binlog, and a channel for this table and target and for each of the `others`."""
    lines = [f"[jobs.{name}]", 'source = "dws1"', 'sink = "mart"', f'slot = "{slot}"', *more]
    for one, into in ((table, target), *others):
        lines += [f"[[jobs.{name}.channels]]", f'from = "{one}"', f'into = "{into}"', "create_target = true"]
    lines += [f"[jobs.{name}.binlog]", "binlog = true"]
    return "\n".join(lines) + "\n\n"


def config(folder: Path, source: Endpoint, sink: Endpoint, *jobs: str) -> Path:
    """Write a configuration with its own state folder; the endpoints are named dws1 and mart."""
    path = folder / "slotkeeper.toml"
    text = server("sources", source) + server("sinks", sink) + "".join(jobs)
    path.write_text(f'{text}[state]\ndir = "{folder / "state"}"\n', encoding="utf-8")
    return path
