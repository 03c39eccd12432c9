"""A Doris is configured by the two ports of its FE; it needs a progress store, and further hosts must be listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.services.doctor import promise_of
from tests.unit.config.samples import changed

DORIS = """
[sinks.dor]
kind = "doris"
host = "fe.example.org"
user = "etl"
progress_store = "mart"
sslmode = "disable"
"""


def job(tmp_path: Path, more: str = "") -> Path:
    path = tmp_path / "config.toml"
    path.write_text(changed('sink = "mart"', 'sink = "dor"') + DORIS + more)
    return path


def test_ports_have_dorises_defaults_and_the_lock_names_the_cluster(tmp_path: Path) -> None:
    made = load(job(tmp_path), {}).jobs["orders_rt"]
    assert (made.sink.port, made.sink.http_port, made.sink.backends) == (9030, 8030, ())
    assert (made.in_two_parts, made.store_at[0].name) == (True, "mart")
    assert made.locked_target == "fe.example.org:8030.mart.orders"
    assert promise_of(made).startswith("each change takes effect exactly once while the sink remembers")


def test_further_hosts_are_a_list(tmp_path: Path) -> None:
    made = load(job(tmp_path, 'backends = ["be1.example.org", "10.0.0.7:18040"]\nhttp_port = 18030\n'), {})
    endpoint = made.jobs["orders_rt"].sink
    assert (endpoint.backends, endpoint.http_port) == (("be1.example.org", "10.0.0.7:18040"), 18030)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('backends = "be1"\n', "must be a list"),
        ('backends = ["be1:x"]\n', "be1:x: the port must be a number from 1 to 65535"),
        ('backends = ["be1:70000"]\n', "the port must be a number"),
        ('database = "mart"\n', "unknown key database"),
        ("http_port = 0\n", "http_port"),
    ],
)
def test_what_a_doris_has_not_is_refused(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(job(tmp_path, more), {})


def test_rows_may_be_quarantined(tmp_path: Path) -> None:
    path = job(tmp_path)
    path.write_text(path.read_text().replace("sink_options]", 'sink_options]\non_bad_row = "quarantine"'))
    assert load(path, {}).jobs["orders_rt"].sink_options.quarantines


def test_tls_is_verified_unless_another_mode_is_written(tmp_path: Path) -> None:
    path = job(tmp_path)
    path.write_text(path.read_text().replace('sslmode = "disable"\n', ""))
    safe = load(path, {}).jobs["orders_rt"].sink
    assert (safe.sslmode, safe.sslrootcert) == ("verify-full", "")
    path.write_text(path.read_text() + 'sslrootcert = "ca.crt"\n')
    assert load(path, {}).jobs["orders_rt"].sink.sslrootcert == str(tmp_path / "ca.crt")
    path.write_text(path.read_text() + 'sslmode = "require"\n')
    with pytest.raises(ConfigError, match=r'sslrootcert has no effect with sslmode = "require"'):
        load(path, {})
    path.write_text(path.read_text().replace("require", "prefer"))
    with pytest.raises(ConfigError, match='must be "disable"'):
        load(path, {})


def test_a_mode_less_than_safe_is_warned_of(tmp_path: Path) -> None:
    assert any("sinks.dor" in one and "unencrypted" in one for one in load(job(tmp_path), {}).warnings)


def test_loads_are_packed_on_request(tmp_path: Path) -> None:
    made = load(job(tmp_path, 'compression = "gzip"\n'), {}).jobs["orders_rt"].sink
    assert made.compression == "gzip"


def test_a_view_is_refused_with_the_statement_that_lets_doris_maintain_it(tmp_path: Path) -> None:
    sql = "SELECT status, count(*) AS n FROM mart.orders GROUP BY status"
    more = f'[[jobs.orders_rt.views]]\ninto = "mart.by_status"\nsql = "{sql}"\n'
    with pytest.raises(ConfigError) as refused:
        load(job(tmp_path, more), {})
    assert "a sink of kind doris cannot maintain views" in str(refused.value)
    assert "CREATE MATERIALIZED VIEW mart.by_status BUILD IMMEDIATE REFRESH AUTO" in refused.value.hint
    listed = "SELECT string_agg(status, ',' ORDER BY status) AS s FROM mart.orders GROUP BY cust"
    with pytest.raises(ConfigError) as unknown:
        load(job(tmp_path, more.replace(sql, listed)), {})
    assert "CREATE" not in unknown.value.hint, "a form that is not translated exactly is not printed"
