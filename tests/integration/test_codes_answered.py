"""Codes of MariaDB and of the stand-ins for Doris and Hologres: the product answers each with its own action.

Each test provokes a refusal of a server. Its answer takes the path that it takes in a job: as a Slotkeeper error, as a
condition, and through the table of causes. The expected results are written down here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.report import Condition, server_of
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, TableAsked
from slotkeeper.core.drivers import my
from slotkeeper.core.engine.driver.failure import explained
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sinks.doris.kind import DorisConnection
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.sources.mysql import faults
from slotkeeper.demo.doris.faults import Call, Fault
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.hologres.instance import Hologres
from slotkeeper.demo.mariadb import HOST, MariaServer
from tests.contract.test_doris_sink import BATCH, IDENTITY, job_of
from tests.support import maria as marias

USER = "answered"


def answered(error: SlotkeeperError, job: JobSpec) -> Condition:
    """Return the job's report of it: the condition with its code and its action."""
    party, at = (error.where, job.source if error.where == "source" else job.sink)
    cause = server_of(error.message)[2]
    return explained(Condition(party, f"{party} {at.name}", cause, 0.0, code=error.code), job)


def agrees(condition: Condition, code: str, act: str) -> None:
    said = f"{condition.message} {condition.cause} -> {condition.act}"
    assert condition.message == code, said
    assert re.search(act, condition.act), said
    assert condition.act != condition.cause and not re.match(r"[A-Za-z]+ed\b", condition.act), said


@dataclass(frozen=True, slots=True)
class Asked:
    """A refusal of a MariaDB: the superuser's preparation, the login's statement, and the expected result."""

    number: int
    code: str
    act: str
    ask: str
    prepare: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    database: str = ""


_GRANT = r"(?i)grant .* to the account of answered"
AT_MARIADB = (
    Asked(1142, "SK-1101", _GRANT, "SELECT * FROM ods.hidden", ("CREATE OR REPLACE TABLE ods.hidden (id INT)",)),
    Asked(1227, "SK-1101", _GRANT, "SET GLOBAL max_connections = 10"),
    Asked(1044, "SK-1104", r"^Allow answered to log in to .*its GRANT the database", "SELECT 1", database="mysql"),
    Asked(
        1290, "SK-1304", r"^Set host of source \w+ to the primary", "INSERT INTO ods.seen VALUES (1)",
        ("CREATE OR REPLACE TABLE ods.seen (id INT)", f"GRANT INSERT, SELECT ON ods.seen TO {USER}@'{HOST}'",
         "SET GLOBAL read_only = 1"),
        ("SET GLOBAL read_only = 0",),
    ),
    Asked(1054, "SK-1602", r"^Compare the columns", "SELECT missing FROM ods.seen",
          ("CREATE OR REPLACE TABLE ods.seen (id INT)", f"GRANT INSERT, SELECT ON ods.seen TO {USER}@'{HOST}'")),
    Asked(1146, "SK-1601", r"^Restore ods\.orders on source", "SELECT * FROM ods.gone",
          (f"GRANT SELECT ON ods.* TO {USER}@'{HOST}'",)),
    Asked(1969, "SK-1404", r"`slotkeeper locks ", "SET STATEMENT max_statement_time = 0.05 FOR SELECT SLEEP(5)"),
    Asked(1317, "SK-1404", r"^No action needed: ", "SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317"),
    Asked(1213, "SK-1402", r"^No action needed: ", "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213"),
    Asked(1040, "SK-1203", r"max_connections", "SIGNAL SQLSTATE '08004' SET MYSQL_ERRNO = 1040"),
    Asked(1236, "SK-1803", r"^Find out whether source", "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1236"),
    Asked(1021, "SK-1201", r"^Free disk space on source", "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1021"),
)  # fmt: skip


@pytest.mark.parametrize("asked", [pytest.param(one, id=str(one.number)) for one in AT_MARIADB])
def test_an_error_number_of_mariadb_is_answered_with_its_own_act(asked: Asked, maria_server: MariaServer) -> None:
    with closing(marias.log_in(maria_server)) as admin, mariadb_user(admin):
        for statement in asked.prepare:
            admin.rows(statement)
        try:
            error = refused_by_mariadb(maria_server, asked)
        finally:
            for statement in asked.after:
                admin.rows(statement)
    assert my.code_of(error) == asked.number
    job = mysql_job(maria_server)
    ours = faults.classify(error, str(job.source), USER)
    agrees(answered(ours, job), asked.code, asked.act)


@contextmanager
def mariadb_user(admin: my.Session) -> Iterator[None]:
    admin.rows("CREATE DATABASE IF NOT EXISTS ods")
    admin.rows(f"CREATE OR REPLACE USER {USER}@'{HOST}'")
    try:
        yield
    finally:
        admin.rows(f"DROP USER {USER}@'{HOST}'")


def refused_by_mariadb(server: MariaServer, asked: Asked) -> my.DriverError:
    try:
        with closing(marias.log_in(server, USER, database=asked.database)) as session:
            session.rows(asked.ask)
    except my.DriverError as error:
        return error
    raise AssertionError(f"{asked.ask} was not refused")


def mysql_job(server: MariaServer) -> JobSpec:
    where = marias.endpoint(server, USER)
    return JobSpec("orders_rt", where, where, "slot", (ChannelSpec("ods.orders", "mart.orders"),), source_kind="mysql")


AT_DORIS = (
    (Fault.NO_BACKEND, "SK-1306", r"^Start the backends of sink dor: `SHOW BACKENDS`"),
    (Fault.TOO_MANY_VERSIONS, "SK-1206", r"^Wait for compaction"),
)


@pytest.mark.parametrize(("fault", "code", "act"), [pytest.param(*one, id=one[0].name) for one in AT_DORIS])
def test_what_a_doris_refuses_is_answered_with_its_own_act(
    fault: Fault, code: str, act: str, doris: DorisStandin
) -> None:
    job = job_of(doris)
    doris.faults.plan(Call.LOAD, *[fault] * 3)
    with closing(DorisConnection(login(job.sink, "test"))) as session:
        refusal = refused(lambda: session.batch_sink(job, IDENTITY, "direct").send(BATCH, "a"))
    agrees(answered(refusal, job), code, act)


def test_a_wrong_password_of_a_doris_names_where_it_comes_from(
    doris: DorisStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "wrong")
    job = job_of(doris)
    job = replace(job, sink=replace(job.sink, password=SecretRef("env", "WRONG")))
    with closing(DorisConnection(login(job.sink, "test"))) as session:
        refusal = refused(lambda: session.batch_sink(job, IDENTITY, "direct").send(BATCH, "a"))
    agrees(answered(refusal, job), "SK-1102", rf"^Write the current password of {job.sink.user} to password_env WRONG")


def hologres_job(hologres: Hologres) -> JobSpec:
    where = hologres.endpoint()
    return JobSpec("orders_rt", where, where, "slot", (ChannelSpec("ods.t", "mart.t"),), source_kind="hologres")


def test_a_wrong_password_of_a_hologres_names_where_it_comes_from(
    hologres: Hologres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "wrong")
    hologres.create_table("ods.t", "id bigint, v bigint", ("id",))
    job = hologres_job(hologres)
    wrong = replace(job.source, password=SecretRef("env", "WRONG"))
    job = replace(job, source=wrong)

    def read() -> None:
        with closing(sources.open("hologres").connect(login(wrong, "test"))) as session:
            session.table(TableAsked.of(job.of("ods.t"))).source.identify()

    refusal = refused(read)
    agrees(answered(refusal, job), "SK-1102", r"^Write the current password of \w+ to password_env WRONG")


def refused(ask: Callable[[], object]) -> SlotkeeperError:
    try:
        ask()
    except SlotkeeperError as error:
        return error
    raise AssertionError("nothing was refused")
