-- Events are in partitions by position, so that old ones can be taken off as one piece: events_N begins at the position N. One set of
-- partitions holds all logs. The table that was there becomes the first partition, as it is: no row is written.
--
-- A unique index of the parent would have to contain the position, so that of (log, stream, version) is each partition's own. `room` is the
-- first position that no partition holds, as far as the log knows; 0: it has not asked.
ALTER TABLE controlplane.log_head ADD COLUMN room bigint NOT NULL DEFAULT 0;

-- How many positions a partition holds.
CREATE FUNCTION controlplane.partition_size() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 10000000;

-- The views that read the table of events, each with its definition in full names.
CREATE FUNCTION controlplane.views_of_events() RETURNS jsonb
LANGUAGE sql SET search_path = pg_catalog
RETURN (
    SELECT coalesce(jsonb_agg(jsonb_build_array(v.view::text, pg_get_viewdef(v.view)) ORDER BY v.view), '[]')
    FROM (SELECT DISTINCT r.ev_class::regclass AS view FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
          WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = to_regclass('controlplane.events')) v
);

-- Define them anew, when another table has that name: they keep their columns, rights and comments.
CREATE FUNCTION controlplane.exchange_events(p_views jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog
AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT v ->> 0 AS name, v ->> 1 AS definition FROM jsonb_array_elements(p_views) AS v LOOP
        EXECUTE format('CREATE OR REPLACE VIEW %s AS %s', one.name, one.definition);
    END LOOP;
END
$$;

-- Where the partitions end: the first position that none of them holds.
CREATE FUNCTION controlplane.partitions_end() RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog
RETURN (
    SELECT max(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''?(\d+)''?\)')::bigint)
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('controlplane.events')
);

-- Make partitions until one holds a position; return the first position that none holds. A table that is attached, and not made as a
-- partition, lets others read and write the others meanwhile.
CREATE FUNCTION controlplane.make_room(p_position bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = controlplane, pg_temp
AS $$
DECLARE
    first bigint;
    after bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('controlplane.partitions', 0)); -- two logs at once
    after := partitions_end();
    WHILE after <= p_position LOOP
        first := after;
        after := ((first - 1) / partition_size() + 1) * partition_size() + 1;
        EXECUTE format('CREATE TABLE controlplane.events_%s (LIKE controlplane.events INCLUDING DEFAULTS INCLUDING STORAGE)', first);
        EXECUTE format('CREATE UNIQUE INDEX events_%s_version ON controlplane.events_%s (log, stream, version)', first, first);
        EXECUTE format('ALTER TABLE controlplane.events_%s ADD CONSTRAINT events_%s_pkey PRIMARY KEY (log, position)', first, first);
        EXECUTE format('ALTER TABLE controlplane.events ATTACH PARTITION controlplane.events_%s FOR VALUES FROM (%s) TO (%s)',
                       first, first, after);
    END LOOP;
    RETURN after;
END
$$;

-- What an append that ends at a position has as `room`: half a partition ahead, so that there is time. While something holds a lock on the
-- table, an append that needs no room yet goes on without it.
CREATE FUNCTION controlplane.room_ahead(p_log text, p_room bigint, p_last bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = controlplane, pg_temp SET lock_timeout = '500ms'
AS $$
BEGIN
    RETURN make_room(p_last + partition_size() / 2);
EXCEPTION WHEN lock_not_available THEN
    IF p_last < p_room THEN
        RETURN p_room;
    END IF;
    RAISE EXCEPTION 'log % has no partition for position %, and none can be made while another session holds a lock on controlplane.events',
        p_log, p_last USING ERRCODE = 'CP004', HINT = 'End the session: pg_locks and pg_stat_activity show it.';
END
$$;

DO $$
DECLARE
    one   record;
    views jsonb;
    after bigint;
BEGIN
    LOCK TABLE controlplane.events IN ACCESS EXCLUSIVE MODE;
    views := controlplane.views_of_events();
    SELECT (coalesce(max(h.position), 0) / controlplane.partition_size() + 1) * controlplane.partition_size() + 1 INTO after
    FROM controlplane.log_head h;

    ALTER TABLE controlplane.events RENAME TO events_1;
    ALTER INDEX controlplane.events_pkey RENAME TO events_1_pkey;
    ALTER INDEX controlplane.events_version RENAME TO events_1_version;
    CREATE TABLE controlplane.events (LIKE controlplane.events_1 INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY RANGE (position);
    ALTER TABLE controlplane.events ADD CONSTRAINT events_pkey PRIMARY KEY (log, position);
    -- What the constraint says is checked in one scan, and not once more when the partition is attached.
    EXECUTE format('ALTER TABLE controlplane.events_1 ADD CONSTRAINT range CHECK (position < %s)', after);
    EXECUTE format('ALTER TABLE controlplane.events ATTACH PARTITION controlplane.events_1 FOR VALUES FROM (MINVALUE) TO (%s)', after);
    ALTER TABLE controlplane.events_1 DROP CONSTRAINT range;
    FOR one IN SELECT a.grantee::regrole AS grantee, a.privilege_type, a.is_grantable
               FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
               WHERE c.oid = 'controlplane.events_1'::regclass AND a.grantee <> c.relowner AND a.grantee <> 0 LOOP
        EXECUTE format('GRANT %s ON controlplane.events TO %s%s', one.privilege_type, one.grantee,
                       CASE WHEN one.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    PERFORM controlplane.exchange_events(views);
    UPDATE controlplane.log_head SET room = after;
END
$$;
REVOKE ALL ON FUNCTION controlplane.partition_size, controlplane.views_of_events, controlplane.exchange_events, controlplane.partitions_end, controlplane.make_room,
    controlplane.room_ahead FROM PUBLIC;
