-- Statements of a changelog reader for DWS; `queries.sql` has those of jobs, and describes the functions.

-- name: images
-- A range of one DN's binlog, each image as the server gives it. Its end is an event, not a point: what shows at the
-- newest point grows, and a second read of the range has to return the same rows.
SELECT {point}, {sequence}, {type}, {columns}
FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE ({point} < {up_to} OR ({point} = {up_to} AND {sequence} <= {up_to_sequence}))
  AND ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence})){only}

-- name: last_event
-- The last event that shows at one point; null where none does.
SELECT max({sequence}) FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end}) WHERE {point} = {up_to}
