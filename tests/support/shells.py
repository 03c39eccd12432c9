"""What somebody's shell and an administrator's session are in tests: `slotkeeper` on the path, and psql at a server.

The command is the product's own, with threads where a job would start Spark, as in all of these worlds.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from slotkeeper.demo.binaries import find_binaries
from slotkeeper.demo.postgres import Server
from tests.support.terminal import ROOT

_PROGRAM = """\
#!{python}
import sys

sys.path.insert(0, {root!r})
from slotkeeper.core.launch import control, launch
from tests.support.local_driver import LOCAL


class Local:
    parse = launch.Launch.parse

    def __new__(cls):
        return LOCAL


control.Launch = Local
from slotkeeper.console.__main__ import main

sys.exit(main())
"""


def shell(home: Path, **more: str) -> Mapping[str, str]:
    """The variables of a shell in which `slotkeeper` is a command; nothing in it names a configuration."""
    programs = home / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    program = programs / "slotkeeper"
    program.write_text(_PROGRAM.format(python=sys.executable, root=str(ROOT)), encoding="utf-8")
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLOTKEEPER", "PG"))}
    return {**kept, "PATH": f"{programs}{os.pathsep}{kept.get('PATH', '')}", "HOME": str(home), **more}


def desk(server: Server, database: str) -> str:
    """The command by which the server's administrator types SQL: it takes it on stdin, and stops at an error."""
    psql = shutil.which("psql") or find_binaries().program("psql")
    password = f"PGPASSWORD=$(cat {shlex.quote(str(server.password_file))})"
    return (
        f"{password} {psql} -X -q -v ON_ERROR_STOP=1 -h {shlex.quote(str(server.host))} -p {server.port}"
        f" -U {server.superuser} {shlex.quote(database)}"
    )
