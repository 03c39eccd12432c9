-- STAND-IN for the binlog functions of DWS. This file defines the columns of the documented results, and the two
-- catalogs. Types follow from use, because most are not documented; the columns of pg_binlog_slots are invented.

CREATE TYPE dws.sync_point_row AS (
    node_name name, node_id integer, last_sync_point bigint, latest_sync_point bigint, xmin bigint);

CREATE TYPE dws.progress_row AS (
    node_name name, node_id integer, slot_name text, checkpoint boolean,
    latest_consumed_timestamp timestamptz, latest_timestamp timestamptz,
    latest_consumed_csn bigint, latest_csn bigint, unconsumed_binlog_count bigint);

CREATE TYPE dws.slot_row AS (
    node_name name, slot_name text, sync_point bigint, sync_timestamp timestamptz, oldest_xmin bigint,
    is_checkpoint boolean);

CREATE TYPE dws.cursor_row AS (
    node_name name, node_id integer, latest_sync_point bigint, binlog_sync_point bigint,
    binlog_timestamp_us bigint, binlog_xmin bigint);

-- port: null for the server's own port
CREATE TABLE dws.coordinator (node_name name PRIMARY KEY, node_id integer NOT NULL UNIQUE, port integer);
INSERT INTO dws.coordinator VALUES ('cn_5001', 1938253334);

SET allow_system_table_mods = on;

-- DNs of another logical cluster, without tables of the demo. If one answers, it returns points of 0 for any slot.
CREATE TABLE dws.elsewhere (node_name name NOT NULL UNIQUE, node_id integer NOT NULL UNIQUE, answers boolean NOT NULL);

CREATE VIEW pg_catalog.pgxc_node AS
SELECT node_name, 'D'::"char" AS node_type, current_setting('port')::integer + ord + 1 AS node_port,
    '127.0.0.1'::name AS node_host, current_setting('port')::integer + ord + 1 AS node_port1,
    '127.0.0.1'::name AS node_host1, true AS hostis_primary, false AS nodeis_primary, false AS nodeis_preferred,
    node_id, 0 AS sctp_port, 0 AS control_port, 0 AS sctp_port1, 0 AS control_port1, false AS nodeis_central,
    false AS read_only, (20000 + ord)::oid AS oid
FROM dws.node
UNION ALL
SELECT node_name, 'D', 0, '127.0.0.1', 0, '127.0.0.1', true, false, false, node_id, 0, 0, 0, 0, false, false,
    (30000 + row_number() OVER (ORDER BY node_id))::oid
FROM dws.elsewhere
UNION ALL
SELECT node_name, 'C', coalesce(port, current_setting('port')::integer), '127.0.0.1',
    coalesce(port, current_setting('port')::integer), '127.0.0.1',
    true, false, false, node_id, 0, 0, 0, 0, node_name = 'cn_5001', false,
    (10000 + row_number() OVER (ORDER BY node_id))::oid
FROM dws.coordinator;
GRANT SELECT ON pg_catalog.pgxc_node TO PUBLIC;

CREATE VIEW pg_catalog.pg_binlog_slots AS
SELECT n.node_name, s.rel AS relation, s.slot_name, s.checkpoint AS is_checkpoint, s.sync_point, s.sync_timestamp,
    s.oldest_xmin
FROM dws.slot s JOIN dws.node n ON n.ord = s.dn;
GRANT SELECT ON pg_catalog.pg_binlog_slots TO PUBLIC;

RESET allow_system_table_mods;
