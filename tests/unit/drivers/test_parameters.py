"""Every parameter that libpq would otherwise take from its environment is set, and no unknown one."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from psycopg2.extensions import libpq_version, parse_dsn
from psycopg2.extensions import make_dsn as dsn

from slotkeeper.core.domain.endpoint import MODES, Endpoint
from slotkeeper.core.drivers.login import ENVIRONMENT_ONLY, NOWHERE, OLDEST_LIBPQ, parameters
from slotkeeper.core.errors import ConfigError
from tests.support.libpq import defaults, library

SERVER = Endpoint("m", "mart.example.com", 5432, "mart", "etl", sslmode="verify-full", sslrootcert="/ca.crt")


def given(endpoint: Endpoint = SERVER, libpq: int | None = None) -> dict[str, Any]:
    return parameters(endpoint, "p", "name", 10, "", libpq or libpq_version())


def test_every_parameter_with_a_variable_is_given_or_its_variable_taken_away() -> None:
    path = library()
    if path is None:
        pytest.skip("psycopg2 was built with the system's libpq")
    read = dict(defaults(path))
    assert len(read) > 30
    missing = {variable for name, variable in read.items() if name not in given()}
    assert missing == {"PGSERVICE"}
    assert missing <= {*ENVIRONMENT_ONLY}


def test_libpq_knows_every_parameter() -> None:
    parsed = parse_dsn(dsn(**given()))
    assert parsed == {name: str(value) for name, value in given().items()}


def test_an_older_libpq_is_given_what_it_knows_and_one_too_old_is_refused() -> None:
    assert "sslnegotiation" in given(libpq=170_000)
    assert "sslnegotiation" not in given(libpq=OLDEST_LIBPQ)
    with pytest.raises(ConfigError, match="libpq 15"):
        given(libpq=150_004)


def test_what_no_parameter_overrides_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT_ONLY:
        monkeypatch.setenv(name, "hostile")
    given()
    assert [name for name in ENVIRONMENT_ONLY if name in os.environ] == []


@pytest.mark.parametrize("mode", MODES)
def test_a_password_in_clear_text_is_for_lines_that_are_surely_encrypted(mode: str) -> None:
    assert (given(replace(SERVER, sslmode=mode))["require_auth"] == "!password") is (mode in MODES[:3])


def test_a_socket_has_no_line_to_listen_on() -> None:
    assert given(replace(SERVER, host="/run/postgresql", sslmode="prefer"))["require_auth"] != "!password"


def test_files_of_the_home_are_never_looked_for() -> None:
    bare = given(replace(SERVER, sslmode="require", sslrootcert=""))
    assert {bare[name] for name in ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")} == {NOWHERE}
    assert bare["sslcertmode"] == "disable"


def test_a_clients_certificate_is_shown_where_one_is_named() -> None:
    shown = given(replace(SERVER, sslcert="/c.crt", sslkey="/c.key", key_password="k"))
    assert (shown["sslcert"], shown["sslkey"], shown["sslcertmode"], shown["sslpassword"]) == (
        "/c.crt",
        "/c.key",
        "allow",
        "k",
    )
