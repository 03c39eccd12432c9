"""`slotkeeper views` against a real sink: what is listed, compared, explained, built again and dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config.load import load
from slotkeeper.core.services import doctor
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_views import STATUS, wait_views
from tests.fault.test_views import mirror as mirror
from tests.support.mirror import Mirror
from tests.support.polling import config, job


def test_views_are_listed_compared_explained_built_again_and_dropped(
    warehouse: Warehouse, mirror: Mirror, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = mirror.job.name
    text = job(name, mirror.job.slot, "ods.orders", "mart.orders", others=[("ods.customers", "mart.customers")])
    for view in mirror.job.views:
        key = f"key = {json.dumps(list(view.key))}\n" if view.key else ""
        text += f'\n[[jobs.{name}.views]]\ninto = "{view.target}"\n{key}sql = """\n{view.sql}"""\n'
    file = config(tmp_path, mirror.job.source, mirror.job.sink, text)

    def call(*words: str, code: int = 0, plain: bool = False) -> Any:
        capfd.readouterr()
        ended = main(["views", *words, *([] if plain else ["--json"]), "--config", str(file)])
        said = capfd.readouterr()
        assert ended == code, (words, ended, said)
        return said.out if plain else json.loads(said.out.splitlines()[-1])

    assert call("list")["views"] == []
    assert call("show", name, STATUS.target, code=3, plain=True) == ""
    mirror.start().wait_running()
    wait_views(mirror)
    mirror.stop()
    listed = {one["view"]: one for one in call("list")["views"]}
    assert {one: listed[one]["state"] for one in listed} == dict.fromkeys(listed, "RUNNING")
    assert listed[STATUS.target]["method"] == "delta"
    assert call("verify", name, STATUS.target)["equal"]
    assert "equal" in call("list", plain=True)
    shown = call("show", name, "dwd.wide")
    assert (shown["waiting"], shown["fresh"]) == (0, 0.0)
    assert "FROM mart.orders" in call("show", name, "dwd.wide", plain=True)
    assert call("explain", name, "dwd.wide")["missing_indexes"] == ["CREATE INDEX ON mart.orders (cust)"]
    assert "missing index: CREATE INDEX ON mart.orders (cust);" in call("explain", name, "dwd.wide", plain=True)
    loaded = load(file, {})
    missing = [one.text for one in doctor.check_sink(loaded, loaded.sinks["mart"]) if "CREATE INDEX" in one.text]
    assert missing == [
        "view dwd.wide: a round reads the whole table without an index: CREATE INDEX ON mart.orders (cust);"
    ]
    mirror.at_sink("ALTER TABLE dwd.wide DISABLE TRIGGER USER", "DELETE FROM dwd.wide WHERE id = 3")
    assert call("verify", name, "dwd.wide", code=4)["differences"] == [{"key": "3", "what": "missing"}]
    assert "missing: key 3" in call("verify", name, "dwd.wide", code=4, plain=True)
    assert "will be built again" in call("rebuild", name, "dwd.wide", "--reason", "a row is missing")["outcome"]
    assert call("show", name, "dwd.wide")["state"] == "STALE"
    assert call("drop", name, "dwd.wide", code=3, plain=True) == ""
    assert call("drop", name, "dwd.wide", "--confirm", "dwd.wide", "--reason", "test")["view"] == "dwd.wide"
    assert [one["view"] for one in call("list", name)["views"]] == [
        view for view in sorted(listed) if view != "dwd.wide"
    ]
