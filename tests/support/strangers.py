"""Embedded servers of every kind at once, and the attempts of a local user who does not have their passwords.

`python -m tests.support.strangers FOLDER UID` starts them as that user, says where they are as one line of JSON, and
ends them when its input ends. `break_in` is tried by another process (`tests.support.other_user`).
"""

from __future__ import annotations

import codecs
import json
import os
import socket
import struct
import sys
import urllib.request
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.drivers import my, pg
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch import identity
from slotkeeper.demo import maria_orders, mariadb, postgres
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.hologres import wire
from slotkeeper.demo.hologres.instance import Hologres
from slotkeeper.demo.warehouse import Warehouse

TABLE = "ods.orders"
SETTINGS = {"fsync": "off", "shared_buffers": "32MB", "max_connections": "20"}
HOST = "127.0.0.1"
SECONDS = 10.0
_STREAM = f"START_REPLICATION SLOT null LOGICAL 0/0 (\"table_name\" '{TABLE}', \"parallel_index\" '0')"


@dataclass(frozen=True)
class Served:
    """Where servers are: ports by protocol, what to reach in files, processes, and a folder that is closed to others.

    `secrets` is the file of every password, which only the user of the servers can read.
    """

    postgres: list[int]
    mysql: list[int]
    http: list[int]
    sockets: list[str]
    paths: list[str]
    processes: list[dict[str, object]]
    victim: str
    secrets: list[str]


def serve(folder: Path, stack: ExitStack) -> Served:
    """Start a PostgreSQL with both stand-ins, a MariaDB and a stand-in for a Doris; they end with the stack."""
    stack.callback(postgres.discard, folder / "pg")
    server = postgres.start(folder / "pg", "pg", SETTINGS)
    Warehouse.install(server, dns=1)
    hologres = Hologres.install(server, shards=1)
    stack.callback(hologres.close)
    hologres.create_table(TABLE, "id bigint NOT NULL", ("id",))
    maria = mariadb.create(folder / "maria")
    stack.callback(maria.discard)
    with closing(maria.session()) as session:
        session.rows("CREATE DATABASE ods")
        session.rows(f"CREATE TABLE {TABLE} (id INT PRIMARY KEY)")
    maria.create_login(maria_orders.LOGIN, *maria_orders.GRANTS)
    doris = stack.enter_context(DorisStandin(password=postgres.write_password(folder / "doris.password")))
    victim = folder / "victim"
    victim.mkdir(mode=0o700)
    (victim / "secret").write_text("kept", "utf-8")
    places = (folder, victim, folder / "pg", server.data_dir.parent, folder / "maria", maria.place)
    secrets = [str(file) for place in places for file in place.glob("*.password")]
    files = (server.data_dir, server.data_dir / "pg_hba.conf", maria.data_dir, maria.files_dir, victim / "secret")
    pids = (server.pid, mariadb.running_pid(folder / "maria"))
    return Served(
        [server.port, hologres.proxy.port],
        [maria.port, doris.ports.query],
        [doris.ports.frontend, doris.ports.backend],
        [str(maria.data_dir / "s")],
        [str(path) for path in (*places, *files, *secrets, maria.client_file)],
        [asdict(identity.of(pid)) for pid in pids],
        str(victim),
        secrets,
    )


def break_in(served: Served) -> dict[str, str]:
    """Return the attempts that succeeded, by kind: logins without or with a guessed password, and requests."""
    found: dict[str, str] = {}
    for port in served.postgres:
        for user in ("postgres", "etl"):
            for guess in ("", user, "postgres", "password"):
                with suppress(pg.DriverError):
                    pg.connect(at(port, user, "postgres"), guess, "stranger").close()
                    found[f"PostgreSQL {port} as {user} with {guess!r}"] = "logged in"
        if _streams(port):
            found[f"PostgreSQL {port}: a stream before the login"] = "streamed"
    for port in served.mysql:
        for user in ("root", "etl", "mysql", "mariadb.sys", "nobody", ""):
            for guess in ("", user):
                with (
                    suppress(my.DriverError, SlotkeeperError),
                    closing(my.connect(at(port, user), guess, "stranger", SECONDS)) as session,
                ):
                    found[f"MySQL {port} as {user!r} with {guess!r}"] = _writes(session, served.victim)
            if _answers(port, user):
                found[f"MySQL {port}: a query after a refused login as {user!r}"] = "answered"
    for port in served.http:
        for method, path in (("GET", "/api/mart/get_load_state?label=a"), ("PUT", "/api/mart/t/_stream_load")):
            for login in ("", "ZXRsOg==", "cm9vdDo="):  # none, etl and root without a password
                if said := _said(port, method, path, login):
                    found[f"{method} {path} at {port} with {login!r}"] = said
    for path in served.sockets:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            found[path] = "connected"
    return found


def load_all() -> None:
    """Import what the attempts and the servers need while this process can still reach it: it may be in root's home."""
    for name in ("ascii", "idna", "latin-1"):
        codecs.lookup(name)
    break_in(Served([1], [1], [1], [], [], [], "", []))  # no server listens at port 1
    DorisStandin().close()


def at(port: int, user: str, database: str = "") -> Endpoint:
    return Endpoint("stranger", HOST, port, database, user, sslmode="disable")


def _writes(session: my.Session, victim: str) -> str:
    try:
        session.rows(f"SELECT 'planted' INTO OUTFILE '{victim}/planted'")
        return "wrote a file as the server's user"
    except my.DriverError as error:
        return f"logged in: {error}"


def _streams(port: int) -> bool:
    """Whether a replication stream starts for a client that answers no question about its password."""
    with suppress(OSError, EOFError), socket.create_connection((HOST, port), SECONDS) as line:
        line.settimeout(SECONDS)
        line.sendall(wire.login({"user": "etl", "database": "hologres", "replication": "database"}))
        line.sendall(wire.framed(b"Q", _STREAM.encode() + b"\0"))
        while True:
            letter, _ = wire.message(line)
            if letter in (b"W", b"d", b"D"):
                return True
            if letter == b"E":
                return False
    return False


def _answers(port: int, user: str) -> bool:
    """Whether a query is answered after a login with an empty proof ("Protocol::HandshakeResponse41")."""
    with suppress(OSError, EOFError), socket.create_connection((HOST, port), SECONDS) as line:
        line.settimeout(SECONDS)
        _packet(line)
        flags = 0x0200 | 0x8000 | 0x80000  # protocol 4.1, secure connection, plugin authentication
        head = struct.pack("<IIB23x", flags, 1 << 24, 33)
        _send(line, 1, head + user.encode() + b"\0\0mysql_native_password\0")
        if _packet(line)[:1] == b"\xfe":
            _send(line, 3, b"")
            _packet(line)
        _send(line, 0, b"\x03SELECT 1")
        return _packet(line)[:1] != b"\xff"
    return False


def _send(line: socket.socket, number: int, body: bytes) -> None:
    line.sendall(struct.pack("<I", len(body))[:3] + bytes((number,)) + body)


def _packet(line: socket.socket) -> bytes:
    head = wire.exactly(line, 4)
    return wire.exactly(line, int.from_bytes(head[:3], "little"))


def _said(port: int, method: str, path: str, login: str) -> str:
    """Return the answer of a part of the stand-in for Doris to this request; "" if it rejects it."""
    headers = {"Authorization": f"Basic {login}"} if login else {}
    headers |= {"format": "json", "read_json_by_line": "true"}
    asked = urllib.request.Request(f"http://{HOST}:{port}{path}", b"{}" if method == "PUT" else None, headers)
    asked.method = method
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            text = answer.read().decode()
    except OSError:
        return ""
    return "" if "no valid Basic authorization" in text else text


def main() -> None:
    """Start the servers as another user, and end them when the input ends."""
    folder, uid = Path(sys.argv[1]), int(sys.argv[2])
    load_all()
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    with ExitStack() as stack:
        print(json.dumps(asdict(serve(folder, stack))), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
