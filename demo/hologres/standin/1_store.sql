-- STAND-IN for Hologres. This file stores tables and shards, and determines the shard of a row.

CREATE SCHEMA hg_standin;
CREATE SCHEMA hg_log;
CREATE SCHEMA hg_base;
CREATE SCHEMA hologres;

CREATE FUNCTION hg_standin.label() RETURNS text LANGUAGE sql AS $$ SELECT 'stand-in for Hologres, not Hologres' $$;

CREATE TABLE hg_standin.setting (name text PRIMARY KEY, value text NOT NULL);
INSERT INTO hg_standin.setting VALUES ('version', 'Hologres 3.2.4 (stand-in, not Hologres)'), ('updates', '3+7'),
    ('truncate', 'new id'), ('replication', '');

CREATE SEQUENCE hg_standin.table_id START 40001;
CREATE TABLE hg_standin.tab (
    rel oid PRIMARY KEY, nsp text NOT NULL, name text NOT NULL, table_id bigint NOT NULL DEFAULT nextval('hg_standin.table_id'),
    shards int NOT NULL, distribute_by text[] NOT NULL, key text[] NOT NULL, schema_version int NOT NULL DEFAULT 1,
    log text NOT NULL);
CREATE TABLE hg_standin.property (rel oid NOT NULL, key text NOT NULL, value text NOT NULL, PRIMARY KEY (rel, key));

-- The shards of the only table group; a table can be set to have fewer.
CREATE TABLE hg_standin.node (ord int PRIMARY KEY, node_name text NOT NULL);

-- (a * b) modulo 2^32, without leaving bigint.
CREATE FUNCTION hg_standin.times(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
SELECT (((((a >> 16) * b) & 65535) << 16) + (a & 65535) * b) & 4294967295 $$;

CREATE FUNCTION hg_standin.turned(a bigint, bits int) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
SELECT ((a << bits) & 4294967295) | (a >> (32 - bits)) $$;

-- murmur3_32 with the seed of Hologres's own client.
CREATE FUNCTION hg_standin.murmur(value text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bytes bytea := convert_to(coalesce(value, ''), 'UTF8');
    size int := length(bytes);
    h bigint := 104729;
    k bigint;
    at int := 0;
BEGIN
    WHILE at + 4 <= size LOOP
        k := get_byte(bytes, at)::bigint | (get_byte(bytes, at + 1)::bigint << 8)
             | (get_byte(bytes, at + 2)::bigint << 16) | (get_byte(bytes, at + 3)::bigint << 24);
        k := hg_standin.times(hg_standin.turned(hg_standin.times(k, 3432918353), 15), 461845907);
        h := (hg_standin.times(hg_standin.turned(h # k, 13), 5) + 3864292196) & 4294967295;
        at := at + 4;
    END LOOP;
    k := 0;
    IF size - at > 2 THEN k := k # (get_byte(bytes, at + 2)::bigint << 16); END IF;
    IF size - at > 1 THEN k := k # (get_byte(bytes, at + 1)::bigint << 8); END IF;
    IF size - at > 0 THEN
        k := k # get_byte(bytes, at)::bigint;
        h := h # hg_standin.times(hg_standin.turned(hg_standin.times(k, 3432918353), 15), 461845907);
    END IF;
    h := h # size;
    h := hg_standin.times(h # (h >> 16), 2246822507);
    h := hg_standin.times(h # (h >> 13), 3266489909);
    RETURN h # (h >> 16);
END $$;

-- The shard of a row from the texts of its distribution key: n ranges of 65536 values, of which the first are wider by
-- one.
CREATE FUNCTION hg_standin.shard_of(parts text[], n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    h bigint := 0;
    part text;
    place int;
    wide int := 65536 / n + 1;
    wider int := 65536 % n;
BEGIN
    FOREACH part IN ARRAY parts LOOP
        h := h # hg_standin.murmur(part);
    END LOOP;
    place := h % 65536;
    RETURN CASE WHEN place < wider * wide THEN place / wide ELSE wider + (place - wider * wide) / (wide - 1) END;
END $$;

-- The shard of row `r` of a table, as an expression.
CREATE FUNCTION hg_standin.dn_expression(rel oid, r text) RETURNS text LANGUAGE sql STABLE AS $$
SELECT format('hg_standin.shard_of(ARRAY[%s], %s)', string_agg(format('%s.%I::text', $2, d.name), ', ' ORDER BY d.place), t.shards)
FROM hg_standin.tab t, unnest(t.distribute_by) WITH ORDINALITY d(name, place) WHERE t.rel = $1 GROUP BY t.shards $$;
