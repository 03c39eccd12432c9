"""The action for an error in a job: the one for the server's SQLSTATE if there is one, otherwise the error's hint."""

from __future__ import annotations

from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.engine.driver.failure import act_of
from slotkeeper.core.errors import AccessRefused, Refused

HERE = Endpoint("mart", "localhost", 5432, "mart", "loader", password=SecretRef("env", "PW"))
JOB = JobSpec("orders", HERE, HERE, "s", (ChannelSpec("ods.t", "mart.t"),))


def test_an_error_number_of_a_server_keeps_the_hint_that_names_the_account() -> None:
    error = AccessRefused("1142: SELECT denied", "grant it to 'loader'@'10.%'", "1142", "source")
    assert act_of(error, JOB) == "grant it to 'loader'@'10.%'"


def test_an_sqlstate_of_the_sink_suggests_what_its_object_and_login_need() -> None:
    error = AccessRefused("permission denied for table t", "ask somebody", "42501", "sink")
    said = act_of(error, JOB)
    assert said != "ask somebody"
    assert "loader" in said and "mart.t" in said


def test_a_refusal_of_our_own_keeps_its_hint() -> None:
    assert act_of(Refused("no key", "add a primary key", where="source"), JOB) == "add a primary key"
