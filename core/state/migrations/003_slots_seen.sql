-- What was seen last of a slot, by whomever: a driver, a console, a command; so that all of them tell the same of it.
CREATE TABLE slots_seen (
    source TEXT NOT NULL,
    source_table TEXT NOT NULL,
    slot TEXT NOT NULL,
    job TEXT NOT NULL,
    at REAL NOT NULL,
    there INTEGER,
    expires_at REAL,
    ttl REAL,
    unread INTEGER,
    shard TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (source, source_table, slot)
) STRICT;
