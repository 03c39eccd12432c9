"""`register` rejects untested environments with one line, before it changes the session."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from slotkeeper.core import dataframe
from slotkeeper.core.errors import Refused


def test_connect_an_archive_and_another_version_are_refused_by_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(Refused, match="Spark Connect is not supported"):
        dataframe.register(remote)
    monkeypatch.setattr(dataframe, "__file__", "/tmp/slotkeeper.zip/slotkeeper/core/dataframe/__init__.py")
    with pytest.raises(Refused, match=r"imported from an archive, /tmp/slotkeeper\.zip") as archive:
        dataframe.register(object())
    assert "--archives" in archive.value.hint
    monkeypatch.undo()
    with pytest.raises(Refused, match=r"pyspark 3\.5\.9 may call") as other:
        dataframe.register(SimpleNamespace(version="3.5.9"))
    assert other.value.hint == "install pyspark 4.2 or 4.3"
