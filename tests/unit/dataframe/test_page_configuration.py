"""The configurations of docs/dataframes.md are complete: each loads as it is written, and a query accepts its job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slotkeeper.core.dataframe.reader.options import asked
from slotkeeper.core.dataframe.writer.spec import Field, spec_of

PAGE = (Path(__file__).parents[3] / "docs" / "dataframes.md").read_text("utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
WHOLE, *OTHERS = BLOCKS


@pytest.mark.parametrize(("name", "kind"), [("dws1", "dws"), ("shop", "mysql"), ("holo", "hologres")])
def test_the_page_s_configuration_is_complete(name: str, kind: str, tmp_path: Path) -> None:
    sources = [WHOLE.partition("[sinks.")[0], *OTHERS]
    assert len(sources) == 3
    (source,) = [one for one in sources if f"[sources.{name}]" in one]
    rest = WHOLE[WHOLE.index("[sinks.") :].replace('source = "dws1"', f'source = "{name}"')
    config = tmp_path / "slotkeeper.toml"
    config.write_text(f"{source}\n{rest}", "utf-8")
    found = asked({"config": str(config), "job": "orders_df", "start": "initial", "changelog": "net"})
    assert (found.job.source_kind, found.job.channel.source_table) == (kind, "ods.orders")
    spec = spec_of(
        {"config": str(config), "sink": "mart", "table": "dwd.orders", "key": "id"}, [Field("id", "int", {})]
    )
    assert (spec.sink.name, spec.store.name, spec.sink.kind) == ("mart", "mart", "postgres")
