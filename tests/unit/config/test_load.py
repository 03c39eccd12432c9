"""A valid configuration: its resulting values, which setting takes precedence, and the origin of each value."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from slotkeeper.core.config.load import find, load
from slotkeeper.core.config.model import Layer, Loaded, NoConfig, Origin
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, RetryOptions, SinkOptions, SparkOptions
from slotkeeper.core.errors import ConfigError, Defect
from tests.unit.config.samples import SECOND_JOB, VALID, added, changed

STATE = {"XDG_STATE_HOME": "/state"}


def _load(tmp_path: Path, text: str = VALID, env: dict[str, str] | None = None, **options: object) -> Loaded:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return load(file, STATE | (env or {}), {name.replace("__", "."): value for name, value in options.items()})


def test_a_channel_s_mapping_and_filter_are_read_and_shown(tmp_path: Path) -> None:
    lines = 'columns = { id = "Order Id", "Place" = "place" }\nwhere = "region = \'EU\'"\n'
    file = tmp_path / "config.toml"
    file.write_text(changed('into = "mart.orders"', f'into = "mart.All Orders"\n{lines}'))
    loaded = load(file, {})
    mapping = (("id", "Order Id"), ("Place", "place"))
    channel = ChannelSpec("ods.orders", "mart.All Orders", False, mapping, "\"region\" = 'EU'")
    assert loaded.jobs["orders_rt"].channels == (channel,)
    shown = {one.key: one.value for one in loaded.settings()}
    assert shown["jobs.orders_rt.channels[0].columns"] == '{ id = "Order Id", Place = "place" }'


def test_a_job_gets_the_documented_defaults(tmp_path: Path) -> None:
    job = _load(tmp_path).jobs["orders_rt"]
    assert job.source == Endpoint("dws1", "127.0.0.1", 8000, "gaussdb", "etl", SecretRef("env", "DWS1_PASSWORD"))
    assert job.sink == Endpoint("mart", "localhost", 5432, "mart", "etl")
    assert job.channels == (ChannelSpec("ods.orders", "mart.orders"),)
    assert (job.slot, job.start, job.on_existing, job.wait_ms) == ("orders_slot", "initial", "refuse", 600_000)
    assert (job.progress_schema, job.environment) == ("public", "PROD")
    assert job.binlog == BinlogOptions(binlog=True)
    assert job.sink_options == SinkOptions()
    assert job.retry == RetryOptions()
    assert job.spark == SparkOptions()
    assert pickle.loads(pickle.dumps(job)) == job


def test_channels_keep_their_order_and_names_are_told_apart_as_a_server_does(tmp_path: Path) -> None:
    second = '\n[[jobs.orders_rt.channels]]\nfrom = "ods.Orders"\ninto = "mart.Orders"\nkeys_never_change = true\n'
    job = _load(tmp_path, VALID + second).jobs["orders_rt"]
    assert job.channels == (
        ChannelSpec("ods.orders", "mart.orders"),
        ChannelSpec("ods.Orders", "mart.Orders", keys_never_change=True),
    )
    assert [one.channel.target for one in job.narrowed] == ["mart.orders", "mart.Orders"]
    with pytest.raises(Defect, match="2 channels"):
        _ = job.channel
    with pytest.raises(Defect, match=r"no channel from ods\.ORDERS"):
        job.of("ods.ORDERS")


def test_the_defaults_of_the_model_are_those_of_the_specification(tmp_path: Path) -> None:
    job = _load(tmp_path, changed("binlog = true", "")).jobs["orders_rt"]
    assert (job.binlog, job.sink_options) == (BinlogOptions(), SinkOptions())


def test_every_value_reaches_its_place(tmp_path: Path) -> None:
    text = added(
        "jobs.orders_rt.binlog", "binlog_sleep_time = '2s'\nconnection_socket_timeout = 7\nnew_system_value = false"
    )
    text = text.replace("[jobs.orders_rt.retry]\n", '[jobs.orders_rt.retry]\ngive_up_after = "12h"\nwait_max = "1m"\n')
    text = text.replace("spark]\n", 'spark]\ndriver_memory = "2GiB"\nsettings = {"spark.executor.cores" = 2}\n')
    text = text.replace("[state]\n", '[state]\ndir = "here"\n')
    text = text.replace('kind = "postgres"', 'kind = "postgres"\nprogress_schema = "ops"\nconnect_timeout = "3s"')
    text = text.replace("[[jobs", 'on_existing = "merge"\nwait = "1m"\n[[jobs').replace(
        '"mart.orders"\n', '"mart.o"\ncreate_target = true\n'
    )
    loaded = _load(tmp_path, text)
    job = loaded.jobs["orders_rt"]
    assert (job.binlog.binlog_sleep_time, job.binlog.new_system_value) == (2_000, False)
    assert job.source.socket_timeout_ms == job.binlog.connection_socket_timeout == 7
    assert (job.retry.give_up_after, job.retry.wait_max) == (43_200_000, 60_000)
    assert job.spark == SparkOptions("local[4]", "2048m", (("spark.executor.cores", "2"),))
    assert (job.progress_schema, job.sink.connect_timeout_ms) == ("ops", 3_000)
    assert (job.on_existing, job.wait_ms, job.channel) == ("merge", 60_000, ChannelSpec("ods.orders", "mart.o", True))
    assert loaded.state_dir == tmp_path / "here"


def test_a_channel_has_its_own_way_with_changed_columns_or_its_jobs(tmp_path: Path) -> None:
    resnapshot = 'on_schema_change = "resnapshot"\non_existing = "replace"\n'
    text = VALID.replace("[[jobs", f"{resnapshot}[[jobs")
    text += '[[jobs.orders_rt.channels]]\nfrom = "ods.b"\ninto = "mart.b"\non_schema_change = "stop"\n'
    channels = _load(tmp_path, text).jobs["orders_rt"].channels
    assert [one.on_schema_change for one in channels] == ["resnapshot", "stop"]
    assert _load(tmp_path, VALID).jobs["orders_rt"].channel.on_schema_change == "stop"


def test_the_slot_is_the_job_s_name_unless_set_by_either_key(tmp_path: Path) -> None:
    unset = changed('slot = "orders_slot"\n', "")
    assert _load(tmp_path, unset).jobs["orders_rt"].slot == "orders_rt"
    documented = unset.replace("binlog = true", 'binlog_slot_name = "other"')
    loaded = _load(tmp_path, documented)
    assert loaded.jobs["orders_rt"].slot == "other"
    assert _origins(loaded)["jobs.orders_rt.slot"].place.endswith("config.toml:26")


def test_two_jobs_may_read_one_table_through_slots_of_their_own(tmp_path: Path) -> None:
    assert list(_load(tmp_path, VALID + SECOND_JOB).jobs) == ["orders_rt", "second"]


def test_settings_written_with_dots_outside_quotes_are_the_same(tmp_path: Path) -> None:
    text = changed("[jobs.orders_rt.spark]", '[jobs.orders_rt.spark.settings]\nspark.executor.memory = "1g"')
    assert _load(tmp_path, text).jobs["orders_rt"].spark.settings == (("spark.executor.memory", "1g"),)


@pytest.mark.parametrize("text", ["", "\ufeff# from an editor that marks its files\r\n[logging]\r\n"])
def test_an_empty_configuration_is_one(tmp_path: Path, text: str) -> None:
    loaded = _load(tmp_path, text)
    assert (loaded.jobs, loaded.sources, loaded.sinks) == ({}, {}, {})
    assert loaded.state_dir == Path("/state/slotkeeper")


def test_precedence_is_default_file_environment_option(tmp_path: Path) -> None:
    name = "SLOTKEEPER_JOBS__ORDERS_RT__WAIT"
    key, text = "jobs.orders_rt.wait", added("jobs.orders_rt", 'wait = "2m"')
    assert _origin(_load(tmp_path), key) == (600_000, Origin(Layer.DEFAULT))
    assert _origin(_load(tmp_path, text), key) == (120_000, Origin(Layer.FILE, f"{tmp_path / 'config.toml'}:18"))
    assert _origin(_load(tmp_path, text, {name: "3m"}), key) == (180_000, Origin(Layer.ENVIRONMENT, name))
    typed = _load(tmp_path, text, {name: "3m"}, jobs__orders_rt__wait="4m")
    assert _origin(typed, key) == (240_000, Origin(Layer.OPTION, key))


def test_an_option_that_was_not_typed_changes_nothing(tmp_path: Path) -> None:
    loaded = _load(tmp_path, VALID, None, jobs__orders_rt__wait=None)
    assert _origins(loaded)["jobs.orders_rt.wait"] == Origin(Layer.DEFAULT)


def _origins(loaded: Loaded) -> dict[str, Origin]:
    return {setting.key: setting.origin for setting in loaded.settings()}


def _origin(loaded: Loaded, key: str) -> tuple[int, Origin]:
    return loaded.jobs["orders_rt"].wait_ms, _origins(loaded)[key]


def test_variables_are_read_in_the_type_of_their_key(tmp_path: Path) -> None:
    job = _load(
        tmp_path,
        VALID.replace("orders_rt", "orders-rt"),
        {
            "SLOTKEEPER_SOURCES__DWS1__PORT": "9000",
            "SLOTKEEPER_SOURCES__DWS1__DATABASE": "123",
            "SLOTKEEPER_JOBS__ORDERS_RT__BINLOG__BINLOG": "false",
            "SLOTKEEPER_JOBS__ORDERS_RT__RETRY__WAIT_MAX": "45000",
            "SLOTKEEPER_JOBS__ORDERS_RT__SPARK__DRIVER_MEMORY": "600",
            "SLOTKEEPER_STATE__DIR": "there",
        },
    ).jobs["orders-rt"]
    assert (job.source.port, job.source.database, job.binlog.binlog) == (9000, "123", False)
    assert (job.retry.wait_max, job.spark.driver_memory) == (45_000, "600m")


def test_variables_that_hold_a_password_or_configure_something_else_are_left_alone(tmp_path: Path) -> None:
    text = changed("DWS1_PASSWORD", "SLOTKEEPER_MY__PASSWORD")
    loaded = _load(tmp_path, text, {"SLOTKEEPER_MY__PASSWORD": "x", "SLOTKEEPER_CONFIG": "y", "SLOTKEEPER_OTHER": "z"})
    assert loaded.sources["dws1"].endpoint.password == SecretRef("env", "SLOTKEEPER_MY__PASSWORD")


def test_two_names_that_are_one_in_upper_case_cannot_be_told_apart_by_a_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="more than one"):
        _load(
            tmp_path,
            VALID.replace("dws1", "MART").replace("[sinks.mart]", "[sinks.MART]\n[sinks.mart]"),
            {"SLOTKEEPER_SINKS__MART__HOST": "x"},
        )


def test_the_file_is_looked_for_in_order(tmp_path: Path) -> None:
    default = tmp_path / "slotkeeper" / "config.toml"
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(NoConfig):
        find(None, env)
    default.parent.mkdir()
    default.touch()
    assert find(None, env) == default
    assert find(None, env | {"SLOTKEEPER_CONFIG": "/b"}) == Path("/b")
    assert find(Path("/a"), env | {"SLOTKEEPER_CONFIG": "/b"}) == Path("/a")


def test_a_password_file_is_relative_to_the_configuration_and_warned_about(tmp_path: Path) -> None:
    password = tmp_path / "p"
    password.touch()
    password.chmod(0o640)
    text = changed('password_env = "DWS1_PASSWORD"', 'password_file = "p"')
    loaded = _load(tmp_path, text)
    assert loaded.sources["dws1"].endpoint.password == SecretRef("file", str(password))
    assert loaded.warnings == (
        f"sources.dws1: password_file {password} is accessible to other users (mode 0640); set mode 0600",
    )
    password.chmod(0o600)
    assert _load(tmp_path, text).warnings == ()
    password.unlink()
    assert _load(tmp_path, text).warnings == (f"sources.dws1: password_file {password}: No such file or directory",)
