"""The TLS keys of the configuration: defaults by host, contradictions, warnings, and the keys that PROD requires."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load, load_usable
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.errors import ConfigError
from tests.unit.config.samples import SECRET

TEXT = """\
[sources.dws1]
dialect = "dws"
host = "dws.example.com"
port = 8000
database = "gaussdb"
user = "etl"
{source}
[sinks.mart]
kind = "postgres"
host = "{host}"
port = 5432
database = "mart"
user = "etl"
{sink}
[jobs.orders_rt]
source = "dws1"
sink = "mart"
[[jobs.orders_rt.channels]]
from = "ods.orders"
into = "mart.orders"
"""
PROD = 'environment = "prod"'
SAFE = 'sslmode = "verify-full"\nsslrootcert = "ca.crt"'


def read(folder: Path, source: str = SAFE, sink: str = SAFE, host: str = "mart.example.com") -> Loaded:
    file = folder / "config.toml"
    file.write_text(TEXT.format(source=source, sink=sink, host=host), "utf-8")
    (folder / "ca.crt").touch()
    return load_usable(file, {})


def refusal(folder: Path, **given: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(folder, **given).whole()
    return f"{caught.value} ({caught.value.hint})"


def test_the_safe_form_is_not_warned_of_and_its_files_lie_beside_the_configuration(tmp_path: Path) -> None:
    loaded = read(tmp_path, source=f"{SAFE}\n{PROD}")
    assert loaded.warnings == ()
    assert loaded.whole().sinks["mart"].endpoint.sslrootcert == str(tmp_path / "ca.crt")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.5.5.5", "::1", "/run/postgresql", "LOCALHOST"])
def test_this_machine_keeps_prefer_and_is_not_warned_of_in_prod_either(tmp_path: Path, host: str) -> None:
    loaded = read(tmp_path, source=f"{SAFE}\n{PROD}", sink="", host=host).whole()
    assert loaded.sinks["mart"].endpoint.sslmode == "prefer"
    assert loaded.warnings == ()


@pytest.mark.parametrize("host", ["mart.example.com", "10.0.0.1", "127.example.com"])
def test_another_machine_is_insisted_on_and_warned_of(tmp_path: Path, host: str) -> None:
    loaded = read(tmp_path, sink="", host=host)
    assert loaded.sinks["mart"].endpoint.sslmode == "require"
    (warning,) = loaded.warnings
    assert warning.startswith('sinks.mart: sslmode = "require": ')
    assert 'fix: sslmode = "verify-full"' in warning
    shown = {one.key: one.value for one in loaded.settings()}
    assert shown["sinks.mart.sslmode"] == "require"


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require"])
def test_a_weaker_mode_that_is_written_out_is_a_warning_in_prod_too(tmp_path: Path, mode: str) -> None:
    written = f'sslmode = "{mode}"'
    loaded = read(tmp_path, source=f"{written}\n{PROD}", sink=written).whole()
    assert [one.partition(":")[0] for one in loaded.warnings] == ["sources.dws1", "sinks.mart"]


@pytest.mark.parametrize(("source", "sink", "named"), [("", SAFE, "sources.dws1"), (SAFE, "", "sinks.mart")])
def test_a_job_of_prod_is_rejected_where_no_one_chose_a_weak_connection(
    tmp_path: Path, source: str, sink: str, named: str
) -> None:
    loaded = read(tmp_path, source=f"{source}\n{PROD}", sink=sink)
    assert list(loaded.refused) == ["orders_rt"]
    said = refusal(tmp_path, source=f"{source}\n{PROD}", sink=sink)
    assert f"[{named}] does not set sslmode" in said
    assert "verify-full" in said


def test_a_variable_of_the_environment_writes_it_out(tmp_path: Path) -> None:
    read(tmp_path, source=PROD)
    variables = {"SLOTKEEPER_SOURCES__DWS1__SSLMODE": "require"}
    assert load(tmp_path / "config.toml", variables).sources["dws1"].endpoint.sslmode == "require"


def test_a_slotkeeper_variable_with_a_keys_password_is_not_a_configuration_key(tmp_path: Path) -> None:
    name = "SLOTKEEPER_SINKS__MART__SECRET"
    read(tmp_path, sink=f'{SAFE}\nsslcert = "ca.crt"\nsslkey = "ca.crt"\nsslpassword_env = "{name}"')
    endpoint = load(tmp_path / "config.toml", {name: SECRET}).sinks["mart"].endpoint
    assert endpoint.sslpassword == SecretRef("env", name, "sslpassword")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('sslmode = "verify-full"', "needs the certificate of an authority"),
        ('sslmode = "verify-ca"', "set sslrootcert"),
        ('sslmode = "prefer"\nsslrootcert = "ca.crt"', "has no effect"),
        ('sslmode = "disable"\nsslcert = "a"\nsslkey = "b"', "has no effect"),
        (SAFE + '\nsslcert = "a"', "sslcert without sslkey"),
        (SAFE + '\nsslkey = "a"', "sslkey without sslcert"),
        (SAFE + '\nsslpassword_env = "A"', "without sslkey"),
        (SAFE + '\nsslcert="a"\nsslkey="b"\nsslpassword_env = "A"\nsslpassword_file = "b"', "set only one of them"),
        (SAFE + f'\nsslpassword = "{SECRET}"', "use sslpassword_file, sslpassword_env or sslpassword_command"),
        ('sslmode = "verify-full"\nsslrootcert = "system"', "/etc/ssl/certs"),
        ('sslmode = "no"', '"verify-full"'),
    ],
)
def test_what_would_not_do_what_it_says_is_refused(tmp_path: Path, lines: str, words: str) -> None:
    said = refusal(tmp_path, sink=lines)
    assert words in said
    assert "config.toml:" in said
    assert SECRET not in said


def test_files_that_are_absent_or_open_to_others_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "client.key").touch(0o600)
    (tmp_path / "client.key").chmod(0o644)
    (tmp_path / "secret").touch(0o600)
    (tmp_path / "secret").chmod(0o644)
    lines = f'{SAFE}\nsslcert = "client.crt"\nsslkey = "client.key"\nsslpassword_file = "secret"'
    absent, key, secret = read(tmp_path, sink=lines).warnings
    assert "sslcert" in absent and "No such file" in absent
    assert "sslkey" in key and "accessible to other users" in key
    assert "sslpassword_file" in secret and "accessible to other users" in secret


def test_an_authority_that_others_could_put_in_its_place_is_warned_of(tmp_path: Path) -> None:
    root = tmp_path / "ca.crt"
    root.touch(0o600)
    assert not read(tmp_path).warnings
    root.chmod(0o666)
    said = read(tmp_path).warnings
    assert all(": a user who can change it decides which server is trusted" in one for one in said) and said
    root.unlink()
    os.mkfifo(root, 0o600)
    said = read(tmp_path).warnings
    assert all("is not a regular file" in one for one in said) and said
