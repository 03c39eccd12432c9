-- What moves a whole slot of a DWS. `drop_slot` stands in queries.sql.

-- name: full_sync
-- Moves both points of every DN to the newest sync point; its result is not documented.
SELECT * FROM pgxc_register_full_sync_point(%(table)s, %(slot)s)
