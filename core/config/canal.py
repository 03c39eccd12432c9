"""The keys of canal, through which Doris Binlog Load reads a MySQL, each with what stands in its place here.

Names and meanings are those of Doris, "Binlog Load", "CANAL configuration".
"""

from __future__ import annotations

KEYS: tuple[tuple[str, str, str], ...] = (
    ("canal.server.ip", "host of the canal server", "there is no canal: host is the MySQL server's"),
    ("canal.server.port", "port of the canal server", "there is no canal: port is the MySQL server's"),
    ("canal.destination", "canal's name of the source", "the job's slot is the name of its positions"),
    ("canal.username", "login at canal", "user is the login at the MySQL server"),
    ("canal.password", "its password", "secrets only by reference: password_file, password_env, password_command"),
    ("canal.batchSize", "most entries of a batch (8192)", "ranges end with transactions: see [jobs.X.sync]"),
    ("canal.debug", "print every row", "`slotkeeper slots peek` shows rows of the binlog, masked where it is PROD"),
    ("canal.ip", "host of the canal server", "there is no canal"),
    ("canal.port", "port of the canal server", "there is no canal"),
    ("canal.instance.mysql.slaveId", "canal's server_id", "a reader's server_id is made of source, slot and table"),
    ("canal.instance.master.address", "the MySQL server", "host and port name it"),
    ("canal.instance.dbUsername", "login at the MySQL server", "user is that login"),
    ("canal.instance.dbPassword", "its password", "secrets only by reference: password_file, password_env"),
    (
        "canal.instance.memory.buffer.size",
        "events that canal keeps (16384)",
        "no buffer bounds a transaction: what waits beyond 8 MiB waits in a file",
    ),
    ("canal.instance.memory.buffer.memunit", "bytes of an event in it (1024)", "the same"),
)
"""(name, meaning, why it has none here)."""
