"""Tasks that the tests run on Spark's workers, imported there by name."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import slotkeeper
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.errors import ErrorKind, Trouble, TroubleName, Unreachable
from slotkeeper.core.sinks.postgres.session import SinkSession


def described(_spec: object) -> dict[str, object]:
    """Return the user and the path of this process, and what it can see."""
    return {
        "pid": os.getpid(),
        "daemon": os.getppid(),
        "session": os.getsid(0),
        "group": os.getpgid(0),
        "executable": sys.executable,
        "slotkeeper": str(Path(slotkeeper.__file__)),
        "user": os.geteuid(),
        "pyspark_sql": "pyspark.sql" in sys.modules,
        "loaded": {"slotkeeper.core.engine.worker.entries", "slotkeeper.core.sources.dws.kind"} <= sys.modules.keys(),
    }


def connected(endpoint: Endpoint) -> tuple[object, ...]:
    """The content of the environment, and the address that a session to the endpoint connected to."""
    found = login(endpoint, "slotkeeper/worker/1")
    with closing(SinkSession(found.endpoint, found.password, found.name)) as session:
        connection = session.ready()
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_user, current_setting('search_path')")
            return os.environ.get("PGHOSTADDR"), connection.info.port, *cursor.fetchall()[0]


def echoed(spec: object) -> object:
    return spec


def killed(_spec: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def held(spec: object) -> None:
    """Create the file that `spec` names, and never return."""
    Path(str(spec)).write_text(str(os.getpid()), "utf-8")
    threading.Event().wait()


def unreachable(_spec: object) -> None:
    raise Unreachable("no answer", hint="wait", code="08006", where="sink")


def troubled(_spec: object) -> None:
    raise Trouble("gone on dn_1", name=TroubleName.SLOT_MOVED)


def broken(_spec: object) -> None:
    """An unclassified exception with a row's value in its text."""
    raise ValueError("row value 4711", ErrorKind.DATA)


class _OnlyHere:
    """A value that a driver can pickle and a worker cannot unpickle."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return importlib.import_module, ("core.absent4711",)


absent = partial(echoed, _OnlyHere())
