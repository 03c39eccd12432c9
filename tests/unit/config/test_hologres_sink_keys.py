"""A Hologres sink has the keys of PostgreSQL, needs a progress store, and promises only "at least once"."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.services.doctor import promise_of
from tests.unit.config.samples import changed

HOLOGRES = """
[sinks.holo]
kind = "hologres"
host = "hg.example.org"
port = 80
database = "mart"
user = "BASIC$etl"
sslmode = "require"
"""


def job(tmp_path: Path, more: str = 'progress_store = "mart"\n') -> Path:
    path = tmp_path / "config.toml"
    path.write_text(changed('sink = "mart"', 'sink = "holo"') + HOLOGRES + more)
    return path


def test_a_job_into_a_hologres_keeps_its_progress_at_the_store_it_names(tmp_path: Path) -> None:
    made = load(job(tmp_path), {}).jobs["orders_rt"]
    assert (made.sink_kind, made.in_two_parts, made.store_at[0].name) == ("hologres", True, "mart")
    assert promise_of(made) == "each change takes effect at least once; repeats are counted"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("", "cannot store progress rows"),
        ('progress_store = "holo"\n', "which cannot store others' progress rows"),
        ('progress_store = "mart"\nhttp_port = 1\n', "unknown key http_port"),
    ],
)
def test_what_a_hologres_has_not_is_refused(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(job(tmp_path, more), {})
