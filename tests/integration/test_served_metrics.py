"""`alerts serve`: metrics on loopback, jobs on a Unix socket that only its owner can use; nothing can be changed."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser

from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.core.launch import endpoint
from slotkeeper.core.state.sqlite import Store


class Over(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(str(self._path))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A state folder with one job, served by the command; its port and socket."""
    with Store.open(tmp_path / "state") as store:
        store.register_job("orders", "/c.toml")
    path = tmp_path / "jobs.sock"
    words = ["alerts", "serve", "--port", "0", "--socket", str(path), "--state-dir", str(tmp_path / "state")]
    process = subprocess.Popen([sys.executable, "-m", "slotkeeper.console", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = [process.stdout.readline() for _ in range(2)]
        yield int(said[0].rpartition(":")[2].partition("/")[0]), path
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert not path.exists()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def asked(
    connection: http.client.HTTPConnection, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, str]:
    try:
        connection.request(method, path, headers=headers)
        found = connection.getresponse()
        return found.status, found.headers.get("Content-Type", ""), found.read().decode()
    finally:
        connection.close()


def test_metrics_and_jobs_are_served_read_only(served: tuple[int, Path]) -> None:
    port, path = served

    def loopback() -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    code, kind, text = asked(loopback(), "/metrics", Accept="application/openmetrics-text;version=1.0.0,*/*;q=0.1")
    assert (code, kind) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert "slotkeeper_job_up" in {one.name for one in parser.text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    assert asked(loopback(), "/metrics")[:2] == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert asked(loopback(), "/metrics", "HEAD")[2] == ""
    assert asked(loopback(), "/jobs")[0] == 404, "error texts must not be readable by every user of the host"
    assert asked(loopback(), "/metrics", Host="evil.example")[0] == 421
    for method in ("POST", "PUT", "DELETE"):
        assert asked(loopback(), "/metrics", method)[0] == 501
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    code, kind, text = asked(Over(path), "/jobs")
    assert (code, kind) == (200, "application/json")
    assert [one["job"] for one in json.loads(text)["jobs"]] == ["orders"]
    assert asked(Over(path), "/metrics")[0] == 200
    with pytest.raises(Refused, match="another process serves"):
        endpoint.on_socket(path, {})
    with pytest.raises(Refused, match="cannot be served"):
        endpoint.on_port(port, {"/metrics": str})


def test_a_socket_replaces_what_no_process_serves_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    endpoint.on_socket(path, {}).server_close()
    path.write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="is not a socket"):
        endpoint.on_socket(path, {})
    assert path.read_text("utf-8") == "mine"
    with pytest.raises(Refused, match="cannot be served"):
        endpoint.on_socket(tmp_path / ("s" * 120), {})
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(Refused, match="writ"):
        endpoint.on_socket(tmp_path / "shared" / "s", {})
