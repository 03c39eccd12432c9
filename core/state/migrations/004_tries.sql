-- Tries that people ask for before their time ('' is the whole job), and what was done about each: lanes are JSON.
CREATE TABLE tries_asked (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL REFERENCES jobs (name),
    source_table TEXT NOT NULL
) STRICT;
CREATE TABLE tries_answered (
    number INTEGER NOT NULL,
    source_table TEXT NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (number, source_table)
) STRICT;
