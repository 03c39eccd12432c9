"""All Spark tests of a run share one cache folder (`spark_cache`), so that the class archive is made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.spark.runner import SparkRunner, open_runner


@pytest.fixture(autouse=True)
def own_cache(spark_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(spark_cache))


@pytest.fixture(scope="module")
def runner(spark_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRunner]:
    """A Spark of two places for the tests of a module that leave it usable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(spark_cache))
        opened = open_runner(SparkOptions(master="local[2]"), "tests", tmp_path_factory.mktemp("run"))
    yield opened
    opened.close()
