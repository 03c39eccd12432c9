-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- A row per view, by the table of its answer: its fence, its state, and the figures of its last round. A row per event
-- after which a view must be rebuilt; triggers only insert, so that no change of a mirrored table waits for a round.
CREATE TABLE {schema}.slotkeeper_views (
    target text NOT NULL PRIMARY KEY,
    job text NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    definition text NOT NULL,
    spec text NOT NULL,
    state text NOT NULL,
    cause text NOT NULL DEFAULT '',
    since timestamptz NOT NULL DEFAULT now(),
    adds boolean NOT NULL DEFAULT false,
    built text NOT NULL DEFAULT '',
    capture text NOT NULL DEFAULT '',
    rounds bigint NOT NULL DEFAULT 0,
    applied bigint NOT NULL DEFAULT 0,
    round_ms integer,
    fresh_at timestamptz,
    built_at timestamptz,
    verified_at timestamptz,
    verified text NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
CREATE TABLE {schema}.slotkeeper_view_marks (
    view text NOT NULL,
    cause text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
)
