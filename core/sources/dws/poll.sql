-- The statements of the console for DWS while it shows slots. Each query is one statement that only reads.
-- `consume_progress` is in queries.sql.

-- name: points
-- Return the server's clock, the table's options, a setting, and every registered point. Kernel 9.1.0.223 or newer.
SELECT t.clock, t.options, t.consume_timeout,
       s.node_name, s.slot_name, s.sync_point, s.sync_timestamp, s.oldest_xmin, s.is_checkpoint
FROM (
    SELECT extract(epoch FROM clock_timestamp())::float8 AS clock,
           (SELECT coalesce(array_to_string(c.reloptions, ','), '')
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = %(schema)s AND c.relname = %(name)s) AS options,
           (SELECT setting FROM pg_settings WHERE name = 'binlog_consume_timeout') AS consume_timeout
) t
LEFT JOIN pgxc_get_binlog_slots(%(table)s, 0) s ON true

-- name: clock
-- Return clock, options and setting as in `points`, for a kernel that cannot list points.
SELECT extract(epoch FROM clock_timestamp())::float8 AS clock,
       (SELECT coalesce(array_to_string(c.reloptions, ','), '')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s AND c.relname = %(name)s) AS options,
       (SELECT setting FROM pg_settings WHERE name = 'binlog_consume_timeout') AS consume_timeout
