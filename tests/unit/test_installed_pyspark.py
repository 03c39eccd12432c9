"""A worker imports the installed pyspark, not Spark's archive, if the archive belongs to that package."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.spark.daemon import without_archives


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An installation of pyspark with py4j."""
    for folder in ("pyspark/python/lib", "py4j-0.10.9.9.dist-info"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "py4j").mkdir()
    for package in ("pyspark", "py4j"):
        (tmp_path / package / "__init__.py").touch()
    return tmp_path


def archives(home: Path) -> list[str]:
    return [str(home / "python/lib/pyspark.zip"), str(home / "python/lib/py4j-0.10.9.9-src.zip")]


def test_archives_of_the_installed_package_are_left_out(site: Path) -> None:
    path = [*archives(site / "pyspark"), "/ours", "", str(site)]
    assert without_archives(path) == ["/ours", "", str(site)]


def test_archives_of_another_spark_stay(site: Path, tmp_path: Path) -> None:
    path = [*archives(tmp_path / "opt/spark"), str(site)]
    assert without_archives(path) == path


def test_archives_stay_where_the_package_is_not_on_the_path(site: Path) -> None:
    path = [*archives(site / "pyspark"), "/elsewhere"]
    assert without_archives(path) == path


def test_another_release_of_py4j_stays(site: Path) -> None:
    (site / "py4j-0.10.9.9.dist-info").rmdir()
    path = [*archives(site / "pyspark"), str(site)]
    assert without_archives(path) == path[1:]


def test_archives_stay_where_another_package_of_that_name_would_come_first(site: Path, tmp_path: Path) -> None:
    for package in ("pyspark", "py4j"):
        other = tmp_path / f"another_{package}"
        (other / package).mkdir(parents=True)
        (other / package / "__init__.py").touch()
        spark, py4j = archives(site / "pyspark")
        stays = spark if package == "pyspark" else py4j
        assert without_archives([spark, py4j, str(other), str(site)]) == [stays, str(other), str(site)]
        assert without_archives([spark, py4j, str(site), str(other)]) == [str(site), str(other)]


def test_names_that_are_no_archives_of_spark_stay() -> None:
    path = ["pyspark.zip", "/python/lib/pyspark.zip", "lib/python3.11.zip", "."]
    assert without_archives(path) == path
