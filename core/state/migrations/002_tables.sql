-- What is wanted of single tables of a job of several; a table without a row goes as its job does.
CREATE TABLE tables_wanted (
    job TEXT NOT NULL REFERENCES jobs (name),
    source_table TEXT NOT NULL,
    wanted TEXT NOT NULL,
    turn INTEGER NOT NULL,
    PRIMARY KEY (job, source_table)
);
