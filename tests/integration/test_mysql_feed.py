"""A job of several MySQL tables reads the binlog once; a table that cannot be written does not delay the others."""

from __future__ import annotations

from contextlib import closing, suppress
from random import Random

from slotkeeper.core.config.secrets import login
from slotkeeper.core.drivers import my
from slotkeeper.core.judgement.servers import cause_of
from slotkeeper.core.sources.mysql.session import MysqlSession, newest
from tests.support.pairs import MakeMysqlPair, MysqlPair
from tests.support.waiting import until

DUMPS = "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
TABLES = 12


def names() -> list[str]:
    return ["t", *(f"t{n}" for n in range(2, TABLES + 1))]


def dumps(pair: MysqlPair) -> int:
    return int(pair.rows(DUMPS)[0][0])


def started(make_mysql_pair: MakeMysqlPair) -> MysqlPair:
    pair = make_mysql_pair(tables=TABLES)
    pair.run(*(f"INSERT INTO ods.{name} SELECT seq, 0 FROM seq_1_to_100" for name in names()))
    pair.mirror.start().wait_running()
    return pair


def test_a_job_of_many_tables_has_one_dump_connection(make_mysql_pair: MakeMysqlPair, seed: int) -> None:
    draw = Random(seed)
    print(f"seed {seed}")
    pair = started(make_mysql_pair)
    for value in range(40):
        chosen = draw.sample(names(), draw.choice([1, 1, 2, 5]))
        pair.transaction(*(f"UPDATE ods.{name} SET v = {value + 1} WHERE id < 20" for name in chosen))
    pair.wait_equal()
    until(lambda: dumps(pair) == 1, 20, "one dump connection")
    for value in range(40):
        pair.transaction(*(f"UPDATE ods.{name} SET v = {value + 100} WHERE id < 20" for name in names()[:3]))
    pair.wait_equal()
    assert dumps(pair) == 1
    pair.mirror.stop()


def test_a_stream_that_is_ended_on_the_server_begins_again(make_mysql_pair: MakeMysqlPair) -> None:
    pair = started(make_mysql_pair)
    for value in range(5):
        pair.transaction(*(f"UPDATE ods.{name} SET v = {value + 1} WHERE id < 20" for name in names()))
        pair.wait_equal()
        for (number,) in pair.rows(DUMPS.replace("count(*)", "id")):
            with suppress(my.DriverError):  # it has ended by itself
                pair.run(f"KILL {number}")

    def is_alone() -> bool:
        pair.transaction(*(f"UPDATE ods.{name} SET v = v - 1 WHERE id < 20" for name in names()))
        return dumps(pair) == 1

    until(is_alone, 20, "one dump connection, once there are changes to read")
    pair.wait_equal()
    pair.mirror.stop()


def test_a_locked_target_delays_no_other_table_and_catches_up(make_mysql_pair: MakeMysqlPair) -> None:
    pair = started(make_mysql_pair)
    with pair.mirror.sink() as holder, holder.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE mart.t IN ACCESS EXCLUSIVE MODE")
        for value in range(20):
            pair.transaction(*(f"UPDATE ods.{name} SET v = {value + 1} WHERE id < 20" for name in names()))
        count = "SELECT count(*) FROM mart.t2 WHERE v = 20"
        until(lambda: pair.mirror.query(pair.mirror.sink, count) == [(19,)], 30, "the rows of another table")
        cursor.execute("ROLLBACK")
    pair.wait_equal()
    until(lambda: dumps(pair) == 1, 20, "one dump connection")
    pair.mirror.stop()


def test_a_replica_with_the_same_server_id_is_reported_and_the_reader_continues_with_another_id(
    make_mysql_pair: MakeMysqlPair,
) -> None:
    pair = started(make_mysql_pair)
    until(lambda: dumps(pair) == 1, 20, "one dump connection")
    login_of = login(pair.mirror.job.source, "rival")
    with closing(MysqlSession(login_of)) as session, closing(session.connect()) as line:
        replica = session.replica(f"{pair.mirror.job.slot}\x1f{pair.mirror.job.name}\x1ffeed")
        my.register(line, replica)
        file, offset = session.asking(newest)
        with closing(my.dump_file(line, replica, file, offset, blocking=True)):

            def is_reported() -> bool:
                pair.transaction(*(f"UPDATE ods.{name} SET v = v + 1 WHERE id < 20" for name in names()))
                return pair.mirror.heard.reader_error is not None

            until(is_reported, 30, "the other replica to be reported")
            error = pair.mirror.heard.reader_error
            assert error is not None
            assert f"another replica uses this server_id, {replica.server_id}" in error.message
            assert cause_of(error.code, error.message).code == "SK-1801"
            until(lambda: dumps(pair) == 2, 30, "the job's dump connection and the other replica's")
            pair.wait_equal()
    pair.mirror.stop()
