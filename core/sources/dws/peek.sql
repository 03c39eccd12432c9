-- Statements of the binlog inspector for DWS. All only read, and none names a slot.
-- `identity`, `nodes` and `slots` stand in queries.sql, the records at a point or a time in retention.sql.

-- name: rows
-- Some rows of a range of one DN's binlog as text, ordered and cut at the server; the filter decides, as in `changes`
-- of queries.sql. Values are cut after their rows are picked; a long one keeps its length and hash, so that two differ.
SELECT picked.{point}, picked.{sequence}, picked.{type}::text, {time}, {values}
FROM (
    SELECT * FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
    WHERE {point} <= {up_to} AND ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence}))
      {only}
    ORDER BY {point} {direction}, {sequence} {direction}
    LIMIT {most}) picked
ORDER BY 1, 2
