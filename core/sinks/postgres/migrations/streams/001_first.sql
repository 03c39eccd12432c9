-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- A row is updated once in each batch, in the transaction that writes the batch.
CREATE TABLE {schema}.slotkeeper_streams (
    target text NOT NULL,
    query text NOT NULL,
    batch bigint NOT NULL,
    rows bigint NOT NULL,
    host text NOT NULL,
    os_user text NOT NULL,
    pid integer NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (target)
) WITH (fillfactor = 50)

-- name: apply_dws
-- The same on a DWS, where every key holds the column by whose hash a row lies.
CREATE TABLE {schema}.slotkeeper_streams (
    target text NOT NULL,
    query text NOT NULL,
    batch bigint NOT NULL,
    rows bigint NOT NULL,
    host text NOT NULL,
    os_user text NOT NULL,
    pid integer NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (target)
) WITH (orientation = row, fillfactor = 50) DISTRIBUTE BY HASH (target)
