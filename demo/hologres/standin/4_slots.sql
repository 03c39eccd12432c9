-- STAND-IN for Hologres. Publications are those of the real server; these two tables store slots and their confirmed
-- LSNs, as the published client reads them. The columns of the second table are not documented.

CREATE TABLE hologres.hg_replication_slot_properties (slot_name text, property_key text, property_value text);
CREATE TABLE hologres.hg_replication_progress (slot_name text, parallel_index int, lsn bigint,
    PRIMARY KEY (slot_name, parallel_index));

-- Users who can create, drop and read with a slot: superusers, and logins with the replication role
-- (hg_standin.setting).
CREATE FUNCTION hg_standin.may_replicate(who text) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = who AND rolsuper)
    OR who = ANY(string_to_array((SELECT value FROM hg_standin.setting WHERE name = 'replication'), ',')) $$;

CREATE PROCEDURE pg_catalog.hg_create_logical_replication_slot(slot text, plugin text, publication text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NOT hg_standin.may_replicate(session_user) THEN
        RAISE EXCEPTION 'must be superuser or replication role to use replication slots' USING ERRCODE = '42501';
    END IF;
    IF slot !~ '^[a-z0-9_]+$' THEN
        RAISE EXCEPTION 'syntax error' USING ERRCODE = '42601';
    END IF;
    IF plugin <> 'hgoutput' THEN
        RAISE EXCEPTION 'could not access file "%"', plugin USING ERRCODE = '58P01';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = publication) THEN
        RAISE EXCEPTION 'publication "%" does not exist', publication USING ERRCODE = '42704';
    END IF;
    IF EXISTS (SELECT FROM hologres.hg_replication_slot_properties WHERE slot_name = slot) THEN
        RAISE EXCEPTION 'replication slot "%" already exists', slot USING ERRCODE = '42710';
    END IF;
    INSERT INTO hologres.hg_replication_slot_properties VALUES (slot, 'plugin', plugin), (slot, 'publication', publication);
END $$;

CREATE PROCEDURE pg_catalog.hg_drop_logical_replication_slot(slot text) LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NOT hg_standin.may_replicate(session_user) THEN
        RAISE EXCEPTION 'must be superuser or replication role to use replication slots' USING ERRCODE = '42501';
    END IF;
    IF NOT EXISTS (SELECT FROM hologres.hg_replication_slot_properties WHERE slot_name = slot) THEN
        RAISE EXCEPTION 'replication slot "%" does not exist', slot USING ERRCODE = '42704';
    END IF;
    DELETE FROM hologres.hg_replication_slot_properties WHERE slot_name = slot;
    DELETE FROM hologres.hg_replication_progress WHERE slot_name = slot;
END $$;

-- Store the LSN that a slot's reader confirms; `back`: whether a lower LSN than before is accepted.
CREATE FUNCTION hg_standin.confirmed(slot text, shard int, to_lsn bigint, back boolean) RETURNS void LANGUAGE sql AS $$
INSERT INTO hologres.hg_replication_progress AS p VALUES (slot, shard, to_lsn)
ON CONFLICT (slot_name, parallel_index) DO UPDATE SET lsn = excluded.lsn WHERE back OR excluded.lsn > p.lsn $$;

GRANT SELECT ON ALL TABLES IN SCHEMA hologres TO PUBLIC;
