-- Read models of Workloads that are over: what the slow views of 0009 say of them is computed once and kept. Of all others a view says what
-- it says as before. Rows that are kept are shown as long as their stream has no newer event, so they cannot disagree with the log; whoever
-- drops them loses time and nothing else.

CREATE SCHEMA read_models;
COMMENT ON SCHEMA read_models IS 'Kept answers of the views of audit. The service''s own; all of it may be dropped by controlplane.drop_read_models.';

-- Up to where each log has been looked through for Workloads that are over.
CREATE TABLE read_models.progress (
    log      text   COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
);

-- The Workloads of which rows are kept, and the version of the stream that they were made from.
CREATE TABLE read_models.streams (
    log       text   COLLATE "C" NOT NULL,
    stream    text   COLLATE "C" NOT NULL,
    version   bigint NOT NULL,
    PRIMARY KEY (log, stream)
);

-- `live_V` is the view as it was, and the table V has the rows that are kept; the migration puts the view together of both.
DO $$
DECLARE
    view text;
BEGIN
    FOREACH view IN ARRAY ARRAY['workload_phases', 'runs', 'placements', 'pending_reasons', 'effects'] LOOP
        EXECUTE format('CREATE VIEW read_models.live_%I AS %s', view, pg_get_viewdef(format('audit.%I', view)::regclass));
        EXECUTE format('CREATE TABLE read_models.%I AS SELECT * FROM read_models.live_%I WITH NO DATA', view, view);
        EXECUTE format('CREATE INDEX %s_object ON read_models.%I (namespace, name)', view, view);
    END LOOP;
END
$$;

-- Look through the next events of a log, at most so many and none that is younger than an age, and keep the rows of the Workloads that are
-- over and have no newer event. Returns up to where it came. A Workload with a run or a write that goes on is not over: what comes of them
-- depends on what happens to its cluster.
CREATE FUNCTION controlplane.keep_read_models(p_log text, p_events int, p_age interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    begun bigint;
    ended bigint;
    one   record;
BEGIN
    INSERT INTO read_models.progress AS r (log, position) VALUES (p_log, 0) ON CONFLICT (log) DO NOTHING;
    SELECT r.position INTO begun FROM read_models.progress r WHERE r.log = p_log FOR UPDATE;
    ended := least(begun + p_events, audit.position_at(p_log, clock_timestamp() - p_age));
    IF ended IS NULL OR ended <= begun THEN
        RETURN begun;
    END IF;
    FOR one IN
        SELECT t.stream, n.version, substring(t.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(t.stream FROM '/([^/]+)$') AS name
        FROM (SELECT DISTINCT e.stream FROM events e
              WHERE e.log = p_log AND e.position > begun AND e.position <= ended AND e.stream LIKE 'workload/%') t
        CROSS JOIN LATERAL (
            SELECT e.version, e.position FROM events e WHERE e.log = p_log AND e.stream = t.stream ORDER BY e.version DESC LIMIT 1) n
        CROSS JOIN LATERAL (
            SELECT e.type, e.data FROM events e
            WHERE e.log = p_log AND e.stream = t.stream AND e.type IN ('WorkloadObserved', 'WorkloadGone') ORDER BY e.version DESC LIMIT 1) w
        WHERE n.position <= ended AND (w.type = 'WorkloadGone' OR replace(w.data::text, '\u0000', '\ufffd')::jsonb
              @? '$.conditions[*] ? (@.type == "Finished" && @.status == "True")')
    LOOP
        DELETE FROM read_models.streams k WHERE k.log = p_log AND k.stream = one.stream;
        IF FOUND THEN
            DELETE FROM read_models.workload_phases k WHERE k.log = p_log AND k.namespace = one.namespace AND k.name = one.name;
            DELETE FROM read_models.runs k WHERE k.log = p_log AND k.namespace = one.namespace AND k.name = one.name;
            DELETE FROM read_models.placements k WHERE k.log = p_log AND k.namespace = one.namespace AND k.name = one.name;
            DELETE FROM read_models.pending_reasons k WHERE k.log = p_log AND k.namespace = one.namespace AND k.name = one.name;
            DELETE FROM read_models.effects k WHERE k.log = p_log AND k.namespace = one.namespace AND k.name = one.name;
        END IF;
        BEGIN
            INSERT INTO read_models.runs SELECT * FROM read_models.live_runs v WHERE v.log = p_log AND v.namespace = one.namespace AND v.name = one.name;
            IF EXISTS (SELECT FROM read_models.runs k WHERE k.log = p_log AND k.namespace = one.namespace AND k.name = one.name
                       AND k.last_position IS NULL) THEN
                RAISE EXCEPTION USING ERRCODE = 'CP009';
            END IF;
            INSERT INTO read_models.effects SELECT * FROM read_models.live_effects v WHERE v.log = p_log AND v.namespace = one.namespace AND v.name = one.name;
            IF EXISTS (SELECT FROM read_models.effects k WHERE k.log = p_log AND k.namespace = one.namespace AND k.name = one.name
                       AND k.outcome = 'open') THEN
                RAISE EXCEPTION USING ERRCODE = 'CP009';
            END IF;
            INSERT INTO read_models.workload_phases
            SELECT * FROM read_models.live_workload_phases v WHERE v.log = p_log AND v.namespace = one.namespace AND v.name = one.name;
            INSERT INTO read_models.placements
            SELECT * FROM read_models.live_placements v WHERE v.log = p_log AND v.namespace = one.namespace AND v.name = one.name;
            INSERT INTO read_models.pending_reasons
            SELECT * FROM read_models.live_pending_reasons v WHERE v.log = p_log AND v.namespace = one.namespace AND v.name = one.name;
            INSERT INTO read_models.streams (log, stream, version) VALUES (p_log, one.stream, one.version);
        EXCEPTION WHEN SQLSTATE 'CP009' THEN
            NULL; -- what goes on is not kept
        END;
    END LOOP;
    UPDATE read_models.progress r SET position = ended WHERE r.log = p_log;
    RETURN ended;
END
$$;

-- Drop what is kept of a log; it is made again.
CREATE FUNCTION controlplane.drop_read_models(p_log text) RETURNS void
LANGUAGE sql SET search_path = controlplane, pg_temp
AS $$
    DELETE FROM read_models.progress WHERE log = p_log;
    DELETE FROM read_models.streams WHERE log = p_log;
    DELETE FROM read_models.workload_phases WHERE log = p_log;
    DELETE FROM read_models.runs WHERE log = p_log;
    DELETE FROM read_models.placements WHERE log = p_log;
    DELETE FROM read_models.pending_reasons WHERE log = p_log;
    DELETE FROM read_models.effects WHERE log = p_log;
$$;

REVOKE ALL ON FUNCTION controlplane.keep_read_models, controlplane.drop_read_models FROM PUBLIC;
GRANT EXECUTE ON FUNCTION controlplane.keep_read_models TO controlplane_service;
GRANT USAGE ON SCHEMA read_models TO controlplane_service;
GRANT SELECT ON read_models.progress TO controlplane_service;
