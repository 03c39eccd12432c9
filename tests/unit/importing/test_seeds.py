"""Every statement of the vendors' pages about binlogs becomes a configuration, or is named as a statement of a server.

The statements are those of DWS, "Real-Time Binlog Consumption by Flink" and "Subscribing to Hybrid Data Warehouse
Binlog"; Alibaba Cloud, "Technical Principle of Hologres Binlog"; and Doris, "Binlog Load".
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.config.load import load_usable
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.importing import lists, written
from slotkeeper.core.importing.pasted import Fate, Pasted
from slotkeeper.core.importing.written import Given, Made, Server
from tests.support.pasted import (
    CANAL_INSTANCE,
    CREATE_SYNC,
    DWS_FLINK,
    DWS_FLINK_SOURCE,
    DWS_JAVA,
    HOLO_CLIENT,
    HOLO_STREAM,
    HOLOGRES_FLINK,
    ON_SERVERS,
)

DWS = Server("", "dws1.example.org", 8000, "gaussdb", "etl")
HOLOGRES = Server("", "hg1.example.org", 80, "shop", "etl")
MART = Server("postgres", "mart.example.org", 5432, "mart", "etl")
LAKE = Server("doris", "fe1.example.org", 9030, "", "etl")
SHOP = Server("", "db1.example.org", 3306, "", "etl")


def made(*texts: str, source: Server | None = None, sink: Server | None = None, store: Server | None = None) -> Made:
    found = Pasted()
    for number, text in enumerate(texts):
        found = found.plus(written.shifted(lists.read(text), number))
    return written.configuration(lists.with_canal(found), Given(source, sink, store))


def job(*texts: str, source: Server, sink: Server = MART, store: Server | None = None) -> JobSpec:
    """The only job of the configuration, which is valid as a whole."""
    text = made(*texts, source=source, sink=sink, store=store).text
    (found,) = load_usable(Path("imported.toml"), {}, text=text).whole().jobs.values()
    return found


def test_a_dws_source_table_alone_is_mirrored_into_the_given_sink() -> None:
    found = job(DWS_FLINK_SOURCE, source=DWS)
    assert (found.source_kind, found.sink_kind, found.slot) == ("dws", "postgres", "slot")
    assert [(one.source_table, one.target) for one in found.channels] == [("public.test_binlog_source",) * 2]
    assert found.binlog.binlog


def test_the_full_synchronization_of_dws_is_one_job() -> None:
    found = job(DWS_FLINK, source=DWS)
    assert [(one.source_table, one.target) for one in found.channels] == [
        ("public.test_binlog_source", "public.test_binlog_sink")
    ]
    assert [one.columns for one in found.channels] == [(("a", "a"), ("b", "b"), ("c", "c"))]
    assert (found.sink_options.ignore_update_before, found.sink_options.connection_size) == (False, 1)


def test_placeholders_of_the_page_are_refused_until_the_servers_are_given() -> None:
    assert [(one.line, one.what) for one in made(DWS_FLINK).refused] == [(9, "url"), (24, "url")]


def test_the_registration_after_another_tools_copy_is_a_start_at_the_latest_point() -> None:
    registered = "SELECT * FROM pg_catalog.pgxc_register_full_sync_point('test_binlog_source', 'slot');"
    assert job(f"{DWS_FLINK}\n{registered}", source=DWS).start == "latest"


def test_the_java_program_of_dws_names_the_table_and_the_slot() -> None:
    found = job(DWS_JAVA, source=DWS)
    assert (found.slot, found.binlog.new_system_value, found.binlog.need_redistribution) == (
        "binlog_test_slot", True, False,
    )  # fmt: skip
    assert [one.source_table for one in found.channels] == ["public.binlog_test_source"]


def test_the_hologres_table_is_mirrored_without_its_binlog_columns() -> None:
    text = HOLOGRES_FLINK.replace("<yourTablename>", "test_message_src")
    found = job(text, source=HOLOGRES)
    assert (found.source_kind, found.start) == ("hologres", "initial")
    assert [name for name, _ in found.channels[0].columns] == ["id", "title", "body"]


def test_the_stream_and_the_client_of_hologres_are_jobs_with_their_start() -> None:
    streamed, subscribed = job(HOLO_STREAM, source=HOLOGRES), job(HOLO_CLIENT, source=HOLOGRES)
    assert (streamed.start, streamed.binlog.binlog_read_batch_size) == ("earliest", 1024)
    assert (subscribed.start, subscribed.binlog.binlog_read_batch_size) == ("2021-01-01 12:00:00+08:00", 128)
    assert [one.source_table for one in subscribed.channels] == ["public.test_message_src"]


def test_create_sync_takes_the_server_from_canals_properties() -> None:
    text = made(CREATE_SYNC, CANAL_INSTANCE, sink=LAKE, store=MART)
    assert not text.refused
    (found,) = load_usable(Path("imported.toml"), {}, text=text.text).whole().jobs.values()
    assert (found.source.host, found.source.port, found.source.user) == ("127.0.0.1", 3306, "canal")
    assert [(one.source_table, one.target) for one in found.channels] == [("demo.source_test1", "demo.target_test")]
    assert 'canal"\n' not in text.text.replace('user = "canal"', "")


@pytest.mark.parametrize("text", ON_SERVERS, ids=range(len(ON_SERVERS)))
def test_a_statement_of_a_server_is_no_pipeline(text: str) -> None:
    with pytest.raises(ConfigError, match="no pipeline was found"):
        made(text)
    found = lists.read(text)
    assert found.remarks and {one.fate for one in found.remarks} == {Fate.UNNEEDED}
