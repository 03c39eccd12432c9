-- Times are seconds since the epoch (UTC) by this host's clock; identities, lanes and launches are JSON.
CREATE TABLE jobs (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    wanted TEXT NOT NULL,
    config TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    trouble TEXT NOT NULL DEFAULT '',
    safe TEXT NOT NULL DEFAULT '',
    run TEXT NOT NULL DEFAULT '',
    changed_at REAL NOT NULL
) STRICT;
CREATE TABLE runs (
    run TEXT PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (name),
    launch TEXT NOT NULL DEFAULT '',
    supervisor TEXT,
    driver TEXT,
    started_at REAL NOT NULL,
    ended_at REAL,
    exit_code INTEGER,
    outcome TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX runs_job ON runs (job, started_at);
CREATE TABLE reports (
    job TEXT PRIMARY KEY REFERENCES jobs (name),
    report TEXT NOT NULL,
    reported_at REAL NOT NULL
) STRICT;
CREATE TABLE errors (
    job TEXT NOT NULL REFERENCES jobs (name),
    signature TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_at REAL NOT NULL,
    last_at REAL NOT NULL,
    side TEXT NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (job, signature)
) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL REFERENCES jobs (name),
    at REAL NOT NULL,
    event TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX events_job ON events (job, id);
-- A frame is a job at one moment, compressed; one with a base is compressed with the frame of that id as dictionary.
CREATE TABLE frames (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL REFERENCES jobs (name),
    at REAL NOT NULL,
    base INTEGER,
    frame BLOB NOT NULL
) STRICT;
CREATE INDEX frames_job ON frames (job, at);
CREATE INDEX frames_at ON frames (at);
CREATE TABLE verifies (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    at REAL NOT NULL,
    verdict TEXT NOT NULL,
    differences INTEGER NOT NULL,
    unsettled INTEGER NOT NULL,
    quarantined INTEGER NOT NULL,
    rows_source INTEGER NOT NULL,
    rows_sink INTEGER NOT NULL,
    seconds REAL NOT NULL,
    by_whom TEXT NOT NULL
) STRICT;
CREATE INDEX verifies_job ON verifies (job, id);
