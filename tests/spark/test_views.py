"""Views of a job on Spark: its tasks build them and run their rounds, and a killed driver leaves no wrong view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from tests.spark.test_table_verbs import TABLE, at_source
from tests.support.product import Mirrored, Product, killed
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]
SQL = "SELECT v, count(*) AS n, sum(id) AS ids FROM mart.items GROUP BY v"
VIEW = f'[[jobs.{{job}}.views]]\ninto = "dws.items"\nsql = "{SQL}"\n'


@pytest.fixture
def job(tmp_path: Path, spark_cache: Path, seed: int) -> Iterator[Mirrored]:
    """A running job of the loaded table and a small one with a view."""
    made = Product(tmp_path / "p", rows=2_000, dns=2, seed=seed)
    try:
        made.warehouse.create_table(TABLE, "id bigint NOT NULL, v bigint", ("id",))
        at_source(made, f"INSERT INTO {TABLE} SELECT n, n % 5 FROM generate_series(1, 100) n")
        job = made.job("with_views")
        more = f'[[jobs.{job.name}.channels]]\nfrom = "{TABLE}"\ninto = "mart.items"\ncreate_target = true\n'
        more += VIEW.format(job=job.name)
        text = job.config.read_text(encoding="utf-8")
        job.config.write_text(text.replace(f"[jobs.{job.name}.binlog]", f"{more}\n[jobs.{job.name}.binlog]", 1))
        job.start_again()
        job.wait_state(JobState.RUNNING)
        yield job
    finally:
        made.close()


def equal(job: Mirrored) -> bool:
    state = "SELECT state FROM slotkeeper_views"
    there = "SELECT 1 WHERE to_regclass('slotkeeper_views') IS NOT NULL"
    if not job.product.at_sink(there) or job.product.at_sink(state) != [("RUNNING",)]:
        return False
    source = f"SELECT v, count(*), sum(id) FROM {TABLE} GROUP BY v ORDER BY 1"
    with closing(job.product.warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(source)
        return cursor.fetchall() == job.product.at_sink("SELECT v, n, ids FROM dws.items ORDER BY v")


def test_a_view_follows_on_spark_and_through_a_kill_of_the_driver(job: Mirrored) -> None:
    until(lambda: equal(job), 60, "the view to be built")
    at_source(job.product, f"UPDATE {TABLE} SET v = v + 1 WHERE id % 3 = 0")
    at_source(job.product, f"DELETE FROM {TABLE} WHERE id < 20")
    until(lambda: equal(job), 60, "the view to follow")
    killed(job.driver())
    at_source(job.product, f"UPDATE {TABLE} SET v = 7 WHERE id > 60")
    until(lambda: equal(job), 120, "the view to follow after the kill")
