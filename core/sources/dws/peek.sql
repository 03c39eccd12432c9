-- The statements of the binlog inspector for DWS. They only read and name no slot. `identity`, `nodes` and `slots` are
-- in queries.sql; the statements for records at a point or a time are in retention.sql.

-- name: rows
-- Return some rows of a range of one DN's binlog as text, ordered and limited by the server; the condition selects the
-- rows, as in `changes` of queries.sql. Values are truncated after the rows are selected; a long value keeps its length
-- and hash, so that two different values stay distinguishable.
SELECT picked.{point}, picked.{sequence}, picked.{type}::text, {time}, {values}
FROM (
    SELECT * FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
    WHERE {point} <= {up_to} AND ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence}))
      {only}
    ORDER BY {point} {direction}, {sequence} {direction}
    LIMIT {most}) picked
ORDER BY 1, 2
