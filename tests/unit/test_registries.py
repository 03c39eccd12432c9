"""A kind of server is opened only by its name in the configuration."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from slotkeeper.core.domain.endpoint import Endpoint, Login, SecretRef
from slotkeeper.core.domain.spec import BinlogOptions, Images, TableAsked
from slotkeeper.core.errors import Defect
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from tests.architecture.checkout import ROOT


@pytest.mark.parametrize("registry", [sources, sinks], ids=["sources", "sinks"])
def test_a_kind_is_loaded_once_and_an_unknown_one_is_our_own_defect(registry: object) -> None:
    for name in registry.KINDS:  # type: ignore[attr-defined]
        assert registry.open(name) is registry.open(name)  # type: ignore[attr-defined]
    for asked in (registry.open, registry.traits):  # type: ignore[attr-defined]
        with pytest.raises(Defect, match=r"unknown (source|sink) kind 'oracle'"):
            asked("oracle")


@pytest.mark.parametrize("registry", [sources, sinks], ids=["sources", "sinks"])
def test_what_a_kind_is_called_to_be_without_it_is_what_it_says_itself(registry: object) -> None:
    for name in registry.KINDS:  # type: ignore[attr-defined]
        assert registry.traits(name) is registry.open(name).traits  # type: ignore[attr-defined]


def test_a_table_has_a_slot_exactly_if_its_kind_declares_it_and_every_kind_has_a_changelog() -> None:
    nowhere = Login(Endpoint("shop", "127.0.0.1", 1, "shop", "etl", SecretRef("file", "none")), "", "none")
    for name in sources.KINDS:
        session, asked = sources.open(name).connect(nowhere), TableAsked("ods.t", "slot", BinlogOptions())
        table, log = session.table(asked), session.table(replace(asked, images=Images()))
        assert (table.slot is not None) == sources.traits(name).keeps_positions
        assert type(log.source) is not type(table.source) or getattr(log.source, "whole_images", False)


def test_what_a_kind_is_loads_no_driver() -> None:
    asked = (
        "import sys; from slotkeeper.core.sources import registry as a; from slotkeeper.core.sinks import registry as b"
    )
    asked += "; [one.traits(name) for one in (a, b) for name in one.KINDS]"
    asked += "; print(*sorted(name for name in sys.modules"
    asked += " if name.startswith('slotkeeper.core.drivers') or name == 'psycopg2'))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []
