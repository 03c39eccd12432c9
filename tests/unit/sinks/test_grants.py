"""The printed GRANT statements of each kind of sink give a login exactly the privileges that its jobs need."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.sinks import registry

SINK = Endpoint("mart", "localhost", 1, "mart", "o'hara")
JOB = JobSpec("orders", SINK, SINK, "s", (ChannelSpec("ods.t", "mart.t"),))
OTHER = replace(JOB, name="items", channels=(ChannelSpec("ods.u", "mart.u", create_target=True),))


def test_a_doris_login_writes_its_targets_and_creates_only_where_a_job_creates() -> None:
    one = "GRANT SELECT_PRIV, LOAD_PRIV ON internal.`mart`.`t` TO 'o''hara'"
    assert registry.open("doris").grants(SINK, "", [JOB, JOB]) == [one]
    creates = "SELECT_PRIV, LOAD_PRIV, CREATE_PRIV, ALTER_PRIV, DROP_PRIV"
    made = f"GRANT {creates} ON internal.`mart`.* TO 'o''hara'"
    assert registry.open("doris").grants(SINK, "", [JOB, OTHER])[2:] == [made]
    assert registry.open("doris").grants(SINK, "", [replace(JOB, on_existing="replace")])[1:] == [made]


def test_a_hologres_login_uses_the_schema_and_writes_each_target() -> None:
    usage, *tables = registry.open("hologres").grants(SINK, "", [JOB, OTHER])
    assert usage == 'GRANT USAGE ON SCHEMA mart TO "o\'hara";'
    assert [text.partition(" ON ")[2] for text in tables] == [
        'mart.t TO "o\'hara";',
        'mart.u TO "o\'hara";',
    ]
    assert all({"SELECT", "INSERT", "UPDATE", "DELETE"} <= set(text.replace(",", "").split()) for text in tables)
