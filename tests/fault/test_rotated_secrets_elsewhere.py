"""A password change at a MySQL source or a Doris sink ends no running job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mysql_mimic.auth import NativePasswordAuthPlugin

from slotkeeper.core.domain.endpoint import SecretRef
from tests.support.pairs import PASSWORD, DorisPair, MysqlPair

USER, FIRST, SECOND = "rotated", "first-Passw0rd", "second-Passw0rd"


def test_a_mysql_source_whose_password_changes_is_read_on(mysql_pair: MysqlPair, tmp_path: Path) -> None:
    file, mirror = tmp_path / "password", mysql_pair.mirror
    file.write_text(FIRST)
    file.chmod(0o600)
    mysql_pair.run(f"CREATE OR REPLACE USER {USER} IDENTIFIED BY '{FIRST}'", f"GRANT ALL ON *.* TO {USER}")
    try:
        mirror.job = replace(
            mirror.job, source=replace(mirror.job.source, user=USER, password=SecretRef("file", str(file)))
        )
        mirror.start().wait_running()
        for number, plain in enumerate((SECOND, FIRST)):
            mysql_pair.run(f"ALTER USER {USER} IDENTIFIED BY '{plain}'")
            mysql_pair.run(f"KILL USER {USER}")
            file.write_text(plain)
            mysql_pair.write((number, number))
            mysql_pair.wait_equal()
        mirror.stop()
    finally:
        mysql_pair.run(f"DROP USER {USER}")


def test_a_doris_sink_whose_password_changes_is_loaded_on(doris_pair: DorisPair, tmp_path: Path) -> None:
    file, mirror, doris = tmp_path / "password", doris_pair.mirror, doris_pair.doris
    file.write_text(PASSWORD)
    file.chmod(0o600)
    mirror.job = replace(mirror.job, sink=replace(mirror.job.sink, password=SecretRef("file", str(file))))
    doris_pair.write((1, 1))
    mirror.start().wait_running()
    doris_pair.wait_equal()
    doris.frontend.user = doris.backend.user = f"{doris.user}:{SECOND}"
    doris._wire._server.identity_provider._user.auth_string = NativePasswordAuthPlugin.create_auth_string(SECOND)
    doris_pair.write((2, 2))
    file.write_text(SECOND)
    doris_pair.wait_equal()
    mirror.stop()
