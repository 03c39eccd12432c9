"""Packages above the kinds of server name none of them: they call a kind through the registry."""

from __future__ import annotations

import inspect

import pytest

from slotkeeper.core.config import keys_source
from tests.architecture.checkout import ROOT, sources
from tests.architecture.kinds import kinds

ROOMS = ("core/engine", "core/slots", "core/services", "core/verify", "console")


def test_no_room_above_them_names_a_kind_of_server() -> None:
    found = {}
    for room in ROOMS:
        for path in sources(ROOT, room):
            name = str(path.relative_to(ROOT))
            if spots := kinds(path.read_text("utf-8")):
                found[name] = spots
    assert not found


def test_what_reads_a_configuration_names_none_either() -> None:
    """It uses their traits; keys of a kind's own parameters are in `keys_source`."""
    readers = ("build", "check", "load", "model", "secrets", "tls")
    found = {name: kinds((ROOT / "core" / "config" / f"{name}.py").read_text("utf-8")) for name in readers}
    found |= {
        rule.__name__: kinds(inspect.getsource(rule)) for rule in (keys_source.read_sync, keys_source.refuse_cascades)
    }
    assert not {name: spots for name, spots in found.items() if spots}


def test_a_sink_tells_its_servers_apart_in_one_place() -> None:
    package = ROOT / "core" / "sinks" / "postgres"
    told = [path.name for path in sorted(package.rglob("*.py")) if '"dws"' in path.read_text("utf-8")]
    assert told == ["kind.py", "session.py"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "from slotkeeper.core.sources.dws.viewer import DwsViewer",
            [(1, "slotkeeper.core.sources.dws.viewer.DwsViewer")],
        ),
        ("from slotkeeper.core.sources import registry", []),
        ("from slotkeeper.core.drivers import pg", [(1, "slotkeeper.core.drivers.pg")]),
        ("def open_dws(): ...", [(1, "open_dws")]),
        ("HINT = 'ask pgxc_node'", [(1, "ask pgxc_node")]),
        ("CODE = '57014'", [(1, "57014")]),
        ("if kind == 'postgres': ...", [(1, "postgres")]),
        ('def f() -> None:\n    """DWS: returns the number of nodes registered."""', []),
    ],
)
def test_a_kind_is_found_where_it_is_named(text: str, found: list[tuple[int, str]]) -> None:
    assert kinds(text) == found
