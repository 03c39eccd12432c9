"""The keys of a hologres source that say where a job starts, as the job's own `start`."""

from __future__ import annotations

from slotkeeper.core.config import keys
from slotkeeper.core.config.check import Reading, Table, dotted
from slotkeeper.core.config.keys_hologres import HOLOGRES
from slotkeeper.core.config.lines import Path
from slotkeeper.core.config.values import BadValue
from slotkeeper.core.domain.spec import EVERY_DN
from slotkeeper.core.domain.text import safe


def start_of_hologres(reading: Reading, path: Path, raw: Table, below: Table) -> None:
    """The job's start out of `binlog_start_up_mode`, `start_time` and `start_lsn`, which say one thing together."""
    named = [name for name in ("binlog_start_up_mode", "start_time", "start_lsn") if name in below]
    if not named:
        return
    here: Path = (*path, "binlog", named[-1])
    if "start" in raw:
        what = f"[{dotted(path)}] sets start and binlog.{named[-1]}, two keys for one thing"
        raise reading.error(here, what, "keep start")
    if {"start_time", "start_lsn"} <= set(named):
        what = f"[{dotted(path)}.binlog] sets start_time and start_lsn; Hologres lets the LSN win, we refuse it"
        raise reading.error(here, what, "keep one of them")
    mode, given = below.get("binlog_start_up_mode"), {name: below.pop(name) for name in named}
    read = {name: _value(reading, (*path, "binlog", name), HOLOGRES[name], value) for name, value in given.items()}
    place = read.get("start_time") or _earliest(read.get("start_lsn"))
    if mode == "timestamp" and "start_time" not in read:
        raise reading.error(here, f'{dotted(here)} = "timestamp" needs start_time', "set start_time, or another mode")
    if mode is not None and place and not (mode == "timestamp" and "start_time" in read):
        what = f'{dotted(here)} and binlog_start_up_mode = "{safe(mode, 20)}" name two places to start at'
        raise reading.error(here, what, "keep one of them")
    raw["start"] = place or {"initial": "initial"}.get(str(mode), "earliest")
    reading.overrides[(*path, "start")] = reading.origin(here)


def _value(reading: Reading, path: Path, key: keys.Key, value: object) -> str:
    assert key.read is not None
    try:
        return str(key.read(value))
    except BadValue as error:
        raise reading.error(path, f"{dotted(path)} {error}") from None


def _earliest(lsn: str | None) -> str | None:
    """Behind LSN 0 of all shards is what they still have, as the vendor's example means it."""
    return "earliest" if lsn == f"{EVERY_DN}=0" else lsn
