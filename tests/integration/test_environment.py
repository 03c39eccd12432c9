"""No environment variable and no file of a home directory redirects or weakens a session, here or in a child process.

libpq, "Environment Variables", "The Connection Service File", "The Password File", "Client Certificates".
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.demo.postgres import Server
from tests.support.libpq import NOT_PARAMETERS, defaults, library
from tests.support.tls_lines import HOST, Authority, Seen, begging, tls_front

CODE = """
import json, os, subprocess, sys
from slotkeeper.core.sources.dws.session import QUIET
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.drivers.session import Session
from slotkeeper.core.sinks.postgres.session import SinkSession

environment = dict(os.environ)
port, mode, password = sys.argv[1:4]
found = login(Endpoint("x", "127.0.0.1", int(port), "postgres", "postgres", SecretRef("file", password), mode), "named")
names = (found.endpoint, found.password, found.name)
said = []
for session in (SinkSession(*names), Session(*names, QUIET)):
    connection = session.ready()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, current_database(), application_name, current_setting('search_path'),"
            " current_setting('TimeZone'), current_setting('geqo'), current_setting('DateStyle'),"
            " current_setting('client_encoding') FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        )
        said.append([connection.info.port, bool(connection.info.ssl_in_use), *cursor.fetchone()])
    session.close()
if len(sys.argv) > 4:
    child = [sys.executable, *sys.orig_argv[1:-1]]
    said += json.loads(subprocess.run(child, env=environment, stdout=subprocess.PIPE, check=True).stdout)
print(json.dumps(said))
"""
"""Opens a session in each of the two ways to connect, and prints its server; a child process does the same."""

HOSTILE = {
    "PGPORT": "{decoy}", "PGDATABASE": "elsewhere", "PGUSER": "mallory", "PGPASSWORD": "wrong",
    "PGOPTIONS": "-c search_path=elsewhere", "PGSSLMODE": "disable", "PGREQUIREAUTH": "none",
    "PGTARGETSESSIONATTRS": "standby", "PGLOADBALANCEHOSTS": "random", "PGCHANNELBINDING": "require",
    "PGSSLNEGOTIATION": "direct", "PGSSLMINPROTOCOLVERSION": "TLSv1", "PGSSLMAXPROTOCOLVERSION": "TLSv1.1",
    "PGGSSENCMODE": "require", "PGCLIENTENCODING": "LATIN1", "PGCONNECT_TIMEOUT": "1", "PGAPPNAME": "mallory",
    "PGSERVICE": "decoy", "PGDATESTYLE": "nonsense", "PGTZ": "Nowhere/Never", "PGGEQO": "nonsense",
    "PGREQUIREPEER": "mallory", "PGREQUIRESSL": "1", "PGSSLCERTMODE": "require", "PGSSLSNI": "0",
    "PGSSLCOMPRESSION": "1", "PGGSSDELEGATION": "1", "PGKRBSRVNAME": "mallory", "PGGSSLIB": "gssapi",
    "PGHOST": HOST, "PGHOSTADDR": HOST,
}  # fmt: skip
FILES = (
    "PGPASSFILE",
    "PGSERVICEFILE",
    "PGSYSCONFDIR",
    "PGSSLCERT",
    "PGSSLKEY",
    "PGSSLROOTCERT",
    "PGSSLCRL",
    "PGSSLCRLDIR",
)


@pytest.fixture
def decoy() -> Iterator[Seen]:
    """A server that no configuration names, which accepts any password."""
    with begging(None, 3) as seen:
        yield seen


@pytest.fixture
def hostile(tmp_path: Path, decoy: Seen) -> dict[str, str]:
    """An environment and a home directory that redirect in every way that libpq knows."""
    home, certs = tmp_path / "home", tmp_path / "home" / ".postgresql"
    certs.mkdir(parents=True)
    for name in ("root.crt", "root.crl", "postgresql.crt", "postgresql.key"):
        (certs / name).write_text("rubbish\n", "utf-8")
    (home / ".pgpass").write_text("*:*:*:*:wrong\n", "utf-8")
    service = f"[decoy]\nhost={HOST}\nhostaddr={HOST}\nport={decoy.port}\nsslmode=disable\noptions=-c geqo=off\n"
    for name in (".pg_service.conf", "pg_service.conf"):
        (home / name).write_text(service, "utf-8")
    for file in home.rglob("*"):
        file.chmod(0o700 if file.is_dir() else 0o600)
    given = {name: value.format(decoy=decoy.port) for name, value in HOSTILE.items()}
    paths = ("{h}/.pgpass", "{h}/.pg_service.conf", "{h}", "{c}/postgresql.crt", "{c}/postgresql.key", "{c}/root.crt")
    places = dict(zip(FILES, (*paths, "{c}/root.crl", "{c}"), strict=True))
    given |= {name: path.format(h=home, c=certs) for name, path in places.items()}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, **given, "HOME": str(home)}


def test_the_hostile_environment_sets_every_variable_that_libpq_reads() -> None:
    path = library()
    if path is None:
        pytest.skip("psycopg2 was built with the system's libpq")
    assert {variable for _, variable in defaults(path)} | {*NOT_PARAMETERS} <= {*HOSTILE, *FILES}


def told(env: dict[str, str], port: int, mode: str, password: Path, *child: str) -> list[list[object]]:
    command = [sys.executable, "-c", CODE, str(port), mode, str(password), *child]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    found: list[list[object]] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("mode", ["prefer", "disable"])
def test_a_hostile_environment_changes_nothing_of_an_open_session(
    pg_server: Server, hostile: dict[str, str], decoy: Seen, mode: str
) -> None:
    port = pg_server.port
    found = told(hostile, port, mode, pg_server.password_file, "and a child")
    paths = ("pg_catalog, pg_temp", "pg_catalog") * 2
    text = ("UTC", "on", "ISO, MDY", "UTF8")
    assert found == [[port, False, "postgres", "postgres", "named", path, *text] for path in paths]
    assert (decoy.plain, decoy.tls, decoy.answers) == (0, 0, [])


def test_a_hostile_environment_does_not_lower_tls(
    pg_server: Server, hostile: dict[str, str], decoy: Seen, tmp_path: Path
) -> None:
    (tmp_path / "ca").mkdir()
    with tls_front(Authority(tmp_path / "ca").server(HOST), pg_server.port) as front:
        found = told(hostile, front.port, "require", pg_server.password_file, "and a child")
    assert [(one[0], one[1]) for one in found] == [(front.port, True)] * 4
    assert front.plain == 0
    assert (decoy.plain, decoy.tls) == (0, 0)
