-- The statements of a changelog reader for DWS; `queries.sql` contains the statements of jobs and describes the
-- functions.

-- name: images
-- Return a range of one DN's binlog, with each image as the server returns it. The range ends at an event, not at a
-- point: more events can become visible at the newest point, and a second read of the range has to return the same
-- rows.
SELECT {point}, {sequence}, {type}, {columns}
FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE ({point} < {up_to} OR ({point} = {up_to} AND {sequence} <= {up_to_sequence}))
  AND ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence})){only}

-- name: last_event
-- Return the last visible event of one point; null if there is none.
SELECT max({sequence}) FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end}) WHERE {point} = {up_to}
