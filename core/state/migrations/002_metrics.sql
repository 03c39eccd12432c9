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
