"""Incidents of the sink server: a held lock, a new password, and a restore from a backup."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Unreachable
from slotkeeper.demo import postgres
from slotkeeper.demo.incidents.record import (
    COPY_ANEW,
    PLAN,
    SLOT,
    TARGET,
    VERIFY,
    AtSink,
    Command,
    Incident,
    Manual,
    Refusal,
    World,
    by_status,
    start_refused,
)
from slotkeeper.demo.incidents.slots import FEW, write
from slotkeeper.demo.orders import TABLE

REPORT = "nightly_report"
_APPLIED_WITHIN = 60.0


def _lock(world: World) -> str:
    connection = world.connect_sink()
    world.opened.callback(connection.close)
    with connection.cursor() as cursor:
        cursor.execute(f"SET application_name = '{REPORT}'")
        cursor.execute("BEGIN")
        cursor.execute(f"LOCK TABLE {TARGET} IN ACCESS EXCLUSIVE MODE")
    world.begins()
    write(world, FEW)
    return f"session {REPORT} in the sink locked {TARGET} and stays open"


def _rotate(world: World) -> str:
    """Change the password; write the new one to a file next to the job's password file, not to the job's file."""
    password = postgres.write_password(_fresh(world))
    name = pg.sql.Identifier(world.sink_user)
    world.begins()
    with closing(world.connect_sink()) as connection, connection.cursor() as cursor:
        cursor.execute(pg.sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, pg.sql.Literal(password)))
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (world.sink_user,))
    write(world, FEW)
    return f"the password of sink user {world.sink_user} was changed, and its sessions were terminated"


def _fresh(world: World) -> Path:
    return world.sink_password_file.with_suffix(".new")


def _put_password(world: World) -> None:
    _fresh(world).replace(world.sink_password_file)


def _restore(world: World) -> str:
    world.at_sink(
        f"CREATE TABLE public.kept_rows AS TABLE {TARGET}",
        "CREATE TABLE public.kept_progress AS TABLE slotkeeper_progress",
    )
    write(world, FEW)
    _wait_registered(world)
    world.warehouse.purge()
    world.begins()
    connection = world.sink.connect(world.sink_database, autocommit=False)
    with closing(connection), pg.transaction(connection) as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        cursor.execute(f"TRUNCATE {TARGET}, slotkeeper_progress")
        cursor.execute(f"INSERT INTO {TARGET} TABLE public.kept_rows")
        cursor.execute("INSERT INTO slotkeeper_progress TABLE public.kept_progress")
    write(world, FEW)
    return f"{TARGET} and its progress rows were restored from a backup without the last {FEW} changes"


def _wait_registered(world: World) -> None:
    """Wait until every DN's slot is past the point that the saved progress rows had confirmed."""
    older = (
        "SELECT count(*) FROM slotkeeper_progress p JOIN public.kept_progress k USING (slot, shard)"
        f" WHERE p.slot = '{SLOT}' AND (p.changes = k.changes OR p.registered = k.registered)"
    )
    end = time.monotonic() + _APPLIED_WITHIN
    with closing(world.connect_sink()) as connection, connection.cursor() as cursor:
        while True:
            cursor.execute(older)
            if not cursor.fetchall()[0][0]:
                return
            if time.monotonic() > end:
                raise Unreachable(f"{TABLE}: changes not applied and confirmed within {_APPLIED_WITHIN:g} s")
            time.sleep(0.1)


SINK_DEADLOCK = Incident(
    "sink-deadlock",
    9,
    "The target is locked, or its transactions deadlock",
    "a session in the sink locks the target and stays open",
    _lock,
    by_status(1, ("mart.orders is locked by pid",), "lock_waits", Party.LOCK),
    Refusal(Command(PLAN.text, (3,)), ("its process is running here", "job orders_rt is RUNNING")),
    (
        AtSink("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'nightly_report';"),
        VERIFY,
    ),
)
CREDENTIALS_ROTATED = Incident(
    "credentials-rotated",
    10,
    "The login is rejected, or the account is locked",
    "the sink's password is changed, and the job still uses the old one",
    _rotate,
    by_status(1, ("password authentication failed",), "sink_fails", Party.SINK),
    Refusal(Command(PLAN.text, (1,)), ("password authentication failed",)),
    (
        Manual(
            "write the new password into the file that `password_file` names",
            _put_password,
            lambda world: f"mv {_fresh(world)} {world.sink_password_file}",
        ),
        VERIFY,
    ),
)
SINK_RESTORED = Incident(
    "sink-restored",
    12,
    "SINK OLDER: the sink was restored to an earlier state",
    "the sink is restored from a backup older than the slot's confirmed position",
    _restore,
    by_status(2, ("SINK OLDER", "SLOT MOVED"), "job_failed", Party.SINK, Party.SLOT),
    start_refused("SINK OLDER", "SLOT MOVED"),
    COPY_ANEW,
    stand_in="the sink is not stopped; target and progress rows are restored, and all sessions are terminated",
)
EVERY = (SINK_DEADLOCK, CREDENTIALS_ROTATED, SINK_RESTORED)
