"""A source of a kind without changelogs is rejected with an error that names the kind, before any connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.dataframe.reader.faults import ReadFailed
from slotkeeper.core.dataframe.reader.source import SlotkeeperSource
from slotkeeper.core.sources import registry

NOWHERE = 9
"""The port of `discard`, on which no server listens."""


def configured(folder: Path, kind: str) -> Path:
    secret = folder / "secret"
    secret.write_text("none", "utf-8")
    secret.chmod(0o600)
    login = f'host = "127.0.0.1"\nport = {NOWHERE}\nuser = "etl"\nsslmode = "disable"\npassword_file = "{secret}"\n'
    database = 'database = "shop"\n'
    path = folder / "slotkeeper.toml"
    path.write_text(
        f'[sources.shop]\ndialect = "{kind}"\n{login}{"" if kind == "mysql" else database}'
        f'[sinks.mart]\nkind = "postgres"\n{login}{database}'
        '[jobs.frames]\nsource = "shop"\nsink = "mart"\nslot = "frames_slot"\n'
        '[[jobs.frames.channels]]\nfrom = "shop.orders"\ninto = "mart.orders"\n[jobs.frames.binlog]\nbinlog = true\n',
        "utf-8",
    )
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("kind", ["mysql", "hologres", "hologres_slot"])
@pytest.mark.parametrize("read", ["rows", "changes"])
def test_a_kind_without_changelogs_is_refused_by_name(tmp_path: Path, kind: str, read: str) -> None:
    options = {"config": str(configured(tmp_path, kind)), "job": "frames", "read": read}
    with pytest.raises(
        ReadFailed, match=f"a source of kind {kind} cannot supply a DataFrame; action: read it with a job"
    ):
        SlotkeeperSource(options).schema()


def test_every_kind_either_gives_changelogs_or_is_named_above() -> None:
    without = {kind for kind in registry.KINDS if not registry.traits(kind).changelogs}
    assert without == {"mysql", "hologres", "hologres_slot"}
