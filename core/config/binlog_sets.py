"""The sets of keys that `[jobs.X.binlog]` has, by the name that the traits of a kind of source have (`binlog_keys`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slotkeeper.core.config.check import Reading, Table, as_table
from slotkeeper.core.config.keys import Section
from slotkeeper.core.config.keys_binlog import BINLOG
from slotkeeper.core.config.keys_hologres import HOLOGRES
from slotkeeper.core.config.lines import Path
from slotkeeper.core.config.start_keys import start_of_hologres
from slotkeeper.core.domain.spec import BinlogOptions


def _no_start(reading: Reading, path: Path, raw: Table, below: Table) -> None:
    """No key of the set says where a job starts but those that every set has."""


def _as_read(set_here: Table, options: BinlogOptions) -> BinlogOptions:
    return options


def _tries_of_hologres(set_here: Table, options: BinlogOptions) -> BinlogOptions:
    """`retry_count` counts the first try, too."""
    tries = set_here.get("retry_count", HOLOGRES["retry_count"].default)
    assert isinstance(tries, int)
    return replace(options, binlog_max_retry_times=tries - 1)


@dataclass(frozen=True, slots=True)
class BinlogKeys:
    """`start` puts what keys of the set say of a start into the job's own table; `more` does what no field takes."""

    section: Section
    start: Callable[[Reading, Path, Table, Table], None] = _no_start
    more: Callable[[Table, BinlogOptions], BinlogOptions] = _as_read


SETS = {"dws": BinlogKeys(BINLOG), "hologres": BinlogKeys(HOLOGRES, start_of_hologres, _tries_of_hologres)}
"""All of them."""
UNTOLD = SETS["dws"]
"""That of a job which names no source; which is told later."""


def set_here(reading: Reading, path: Path, raw: Table) -> Table:
    """The table `binlog` of the job at `path` as it is written."""
    return as_table(reading, (*path, "binlog"), raw.get("binlog", {}))
