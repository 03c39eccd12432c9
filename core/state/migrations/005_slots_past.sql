-- What was seen of a slot in the last day, a row a minute and one where it came or went: what history shows.
CREATE TABLE slots_past (
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
    PRIMARY KEY (source, source_table, slot, at)
) STRICT, WITHOUT ROWID;
