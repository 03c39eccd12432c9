"""`--table` against a real driver: one table fails, and is reset and started separately while the other continues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.job import JobState
from tests.support.product import Mirrored, Product
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]
TABLE = "ods.items"


@pytest.fixture
def job(tmp_path: Path, spark_cache: Path, seed: int) -> Iterator[Mirrored]:
    """A running job of the loaded table and a small second one."""
    made = Product(tmp_path / "p", rows=2_000, dns=2, seed=seed)
    try:
        made.warehouse.create_table(TABLE, "id bigint NOT NULL, v bigint", ("id",))
        at_source(made, f"INSERT INTO {TABLE} SELECT n, 1 FROM generate_series(1, 100) n")
        job = made.job("two_tables")
        channel = f'[[jobs.{job.name}.channels]]\nfrom = "{TABLE}"\ninto = "mart.items"\ncreate_target = true\n'
        text = job.config.read_text(encoding="utf-8")
        job.config.write_text(text.replace(f"[jobs.{job.name}.binlog]", f"{channel}\n[jobs.{job.name}.binlog]", 1))
        job.start_again()
        job.wait_state(JobState.RUNNING)
        yield job
    finally:
        made.close()


def at_source(product: Product, statement: str) -> None:
    with closing(product.warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(statement)


def states(job: Mirrored) -> dict[str, str]:
    report = job.view().report
    return {one.source_table: one.state for one in report.tables} if report else {}


def test_a_table_is_stopped_reset_and_started_alone_and_another_way_round_it_fails_first(
    job: Mirrored, capfd: pytest.CaptureFixture[str]
) -> None:
    def call(*words: str) -> str:
        capfd.readouterr()
        code = main([*words, "--config", str(job.config)])
        said = capfd.readouterr()
        assert code == 0, (words, said.out[-2_000:], said.err)
        return said.out

    for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("restart", "RUNNING"), ("stop", "STOPPED")):
        assert call("jobs", verb, job.name, "--table", TABLE, "--wait", "60s").startswith(
            f"{job.name} {TABLE}: {state}"
        )
    at_source(job.product, f"INSERT INTO {TABLE} SELECT n, 2 FROM generate_series(101, 150) n")
    job.product.insert_one()
    place = ("slots", "reset", TABLE, job.name)
    plan = json.loads(call(*place, "--to", "earliest", "--json"))["id"]
    said = call(*place, "--execute", "--plan", plan, "--confirm", job.name, "--reason", "a test")
    assert f"slotkeeper jobs start {job.name} --table {TABLE}" in said
    call("jobs", "start", job.name, "--table", TABLE, "--wait", "60s")
    call("verify", job.name)
    at_source(job.product, f"ALTER TABLE {TABLE} RENAME COLUMN v TO w")
    until(lambda: states(job).get(TABLE) == "FAILED", 60, "the table has FAILED")
    assert job.view().state is JobState.RUNNING
    assert f"jobs start {job.name} --table {TABLE}" in " ".join(call("jobs", "show", job.name).split())
    at_source(job.product, f"ALTER TABLE {TABLE} RENAME COLUMN w TO v")
    call("jobs", "start", job.name, "--table", TABLE, "--wait", "60s")
    call("verify", job.name)
    call("jobs", "stop", job.name)
