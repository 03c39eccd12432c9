"""Messages of commands about TLS: `config check` and a start warn or refuse, `doctor` shows the negotiated protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import doctor
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import AccessRefused, Refused
from slotkeeper.core.launch import control
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror, orders, written
from tests.support.polling import config, job
from tests.support.tls_lines import HOST, Authority, begging, tls_front
from tests.unit.config.test_tls import PROD, SAFE, read

TABLE = "ods.orders"
VERIFIED = 'sslmode = "verify-full"\nsslrootcert = "root.crt"'
Findings = dict[str, list[tuple[str, str]]]


@pytest.fixture
def file(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> Path:
    """A configuration over both embedded servers, its lines open."""
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    one = job("orders_rt", mirror.job.slot, TABLE, "mart.orders")
    return config(tmp_path, mirror.job.source, mirror.job.sink, one)


@pytest.fixture
def doctored(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Path], Findings]:
    """Levels and texts of what `doctor` finds, by place."""
    monkeypatch.setattr(doctor, "_ask_java", lambda: {"version": "21", "home": "/j", "origin": "PATH"})

    def found(file: Path) -> Findings:
        main(["doctor", "--json", "--config", str(file)])
        said: Findings = {}
        for one in json.loads(capsys.readouterr().out)["findings"]:
            said.setdefault(one["place"], []).append((one["level"], one["text"]))
        return said

    return found


def through(file: Path, port: int, table: str, lines: str) -> Path:
    """The configuration with another port and other lines of TLS in a table."""
    before, head, after = file.read_text("utf-8").partition(f"[{table}]")
    after = re.sub(r"^port = \d+$", f"port = {port}", after, count=1, flags=re.MULTILINE)
    file.write_text(before + head + after.replace('sslmode = "disable"', lines, 1), "utf-8")
    return file


def test_doctor_shows_what_each_session_has_negotiated(
    file: Path, warehouse: Warehouse, tmp_path: Path, doctored: Callable[[Path], Findings]
) -> None:
    authority = Authority(tmp_path)
    with tls_front(authority.server(HOST), warehouse.server.port) as front:
        found = doctored(through(file, front.port, "sinks.mart", 'sslmode = "verify-full"\nsslrootcert = "root.crt"'))
    (line,) = [text for level, text in found["sink mart"] if "the connection" in text]
    assert re.match(
        r"the connection uses TLSv1\.3 with TLS_\w+; sslmode = \"verify-full\": the certificate is verified", line
    )
    assert ("ok", "the connection is not encrypted; it stays on this host") in found["source dws1"]


def test_doctor_says_why_a_line_is_refused_and_what_cures_it(
    file: Path, tmp_path: Path, doctored: Callable[[Path], Findings]
) -> None:
    Authority(tmp_path)
    with begging(None, 3) as seen:
        found = doctored(through(file, seen.port, "sources.dws1", 'sslmode = "prefer"'))
        ((level, text),) = found["source dws1"]
        assert (level, seen.answers) == ("fail", [])
        assert 'sslmode = "require" or stronger' in text
        found = doctored(through(file, seen.port, "sinks.mart", VERIFIED))
    assert "Enable TLS on the server" in found["sink mart"][0][1]


def test_config_check_refuses_a_job_of_prod_whose_tls_mode_was_not_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read(tmp_path, source=f"{SAFE}\n{PROD}", sink="")
    for words in (("config", "check"), ("jobs", "start", "orders_rt"), ("run", "orders_rt")):
        assert main([*words, "--config", str(tmp_path / "config.toml")]) == 2
        said = capsys.readouterr().err
        assert "[sinks.mart] does not set sslmode" in said
        assert 'sslmode = "verify-full"' in said


@pytest.mark.parametrize("verb", ["start", "restart"])
def test_a_start_warns_of_what_its_lines_leave_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def enough(*given: object, **more: object) -> None:
        raise Refused("enough")

    monkeypatch.setattr(control, verb, enough)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    read(tmp_path, sink='sslmode = "require"')
    assert main(["jobs", verb, "orders_rt", "--config", str(tmp_path / "config.toml")]) == 3
    said = capsys.readouterr().err
    assert 'sink mart: sslmode = "require": the connection is encrypted, but' in said
    assert "source dws1: ssl" not in said


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int) -> Mirror:
    return orders(make_mirror, warehouse, seed)


def verified(endpoint: Endpoint, port: int, root: Path) -> Endpoint:
    return replace(endpoint, port=port, sslmode="verify-full", sslrootcert=str(root))


def test_a_job_copies_and_follows_with_every_session_inside_verified_tls(
    mirror: Mirror, seed: int, tmp_path: Path
) -> None:
    authority, port = Authority(tmp_path), mirror.warehouse.server.port
    cert, key = authority.client("slotkeeper")
    wants = authority.server(HOST, client=authority)
    with tls_front(wants, port) as source, tls_front(authority.server(HOST), port) as sink:
        job = mirror.job
        ours = replace(verified(job.source, source.port, authority.root), sslcert=str(cert), sslkey=str(key))
        mirror.job = replace(job, source=ours, sink=verified(job.sink, sink.port, authority.root))
        mirror.start().wait_running()
        with written(mirror, seed, changes=60):
            pass
        mirror.wait_applied(mirror.booked())
        mirror.stop()
        entries.close_kept(mirror.job)
    assert source.tls > 1 and sink.tls > 1
    assert (source.plain, sink.plain) == (0, 0)


def test_a_job_whose_server_cannot_prove_itself_is_failed_and_not_retried_for_ever(
    mirror: Mirror, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    with tls_front(Authority(tmp_path).server(HOST), mirror.warehouse.server.port) as seen:
        mirror.job = replace(mirror.job, sink=verified(mirror.job.sink, seen.port, other.root))
        error = mirror.start().wait_error()
    assert isinstance(error, AccessRefused)
    assert "certificate verify failed" in str(error)
    assert seen.tls <= 4
