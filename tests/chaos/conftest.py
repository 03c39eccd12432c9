"""One pair of servers, one cache for Spark's class archive and the two report pages of a chaos run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.product import Product
from tests.support.report import Page
from tests.support.scenes import make_world as make_world


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep tests away from the user's own cache; the archive is made once and then reused."""
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("cache")
    patch.setenv("XDG_CACHE_HOME", str(folder))
    yield folder
    patch.undo()


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Product]:
    """Servers with 20,000 rows that a module's cases share; the copy has many small chunks."""
    made = Product(tmp_path_factory.mktemp("product") / "p", rows=20_000, seed=seed, chunk=100)
    yield made
    made.close()


@pytest.fixture(scope="session")
def chaos_page() -> Page:
    return Page(
        "chaos",
        "Kills, on Spark",
        "One kill per case, no command given afterwards. Seconds: from the kill until all that was committed until then"
        " and later is applied. Ledger: events per DN by the writers' account against the progress rows.",
        ("case", "seed", "recovered", "seconds to recover", "ledger equal", "tables equal"),
    )


@pytest.fixture(scope="session")
def figures_page() -> Page:
    return Page("figures", "Figures, on Spark", "", ("figure", "value", "target", "met"))
