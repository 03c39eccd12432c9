-- Files whose frames came with a number of their own: brought to version 1. A later release may have numbered on after
-- them and lacks `tables_wanted`; the tables that it made hold what was seen last, which is seen again. Drivers reported
-- other fields of a lane then: their reports and the history of them go, and the next driver again.
DROP TABLE IF EXISTS slots_seen;
DROP TABLE IF EXISTS slots_past;
DROP TABLE IF EXISTS tries_asked;
DROP TABLE IF EXISTS tries_answered;
CREATE TABLE IF NOT EXISTS frames (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL REFERENCES jobs (name),
    at REAL NOT NULL,
    base INTEGER,
    frame BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS frames_job ON frames (job, at);
CREATE INDEX IF NOT EXISTS frames_at ON frames (at);
CREATE TABLE IF NOT EXISTS verifies (
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
CREATE INDEX IF NOT EXISTS verifies_job ON verifies (job, id);
DELETE FROM reports;
DELETE FROM frames;
