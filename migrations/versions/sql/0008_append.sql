-- The writer of a log, which its fence makes the only one, knows the versions of the streams and the marks of the sources that it wrote. So
-- it gives each event its place itself, and judges what is expected and what is known; of what it does not know it asks first
-- (`known_to_log`). What it believes is judged here: it says after which position it appends, and if the log does not end there, nothing
-- is written. The last judge of a version is a unique index.
CREATE UNIQUE INDEX events_version ON controlplane.events (log, stream, version);
DROP INDEX controlplane.events_stream;

-- `streams` has one row for each stream from now on, written once; its version is that of the first event, or the last one before this
-- migration. The newest is in `events`.

-- Marks that are in the log and not in `sources` yet, a row a commit: one update of a source stands for many commits then.
CREATE TABLE controlplane.new_marks (
    log     text   COLLATE "C" NOT NULL,
    last    bigint NOT NULL,
    sources text[] NOT NULL,
    marks   bigint[] NOT NULL,
    PRIMARY KEY (log, last)
);
ALTER TABLE controlplane.new_marks ALTER COLUMN sources SET STORAGE EXTERNAL; -- compression costs more than the bytes

-- Bring `sources` up to date.
CREATE FUNCTION controlplane.merge_marks(p_log text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    PERFORM FROM log_head h WHERE h.log = p_log FOR UPDATE;
    WITH taken AS (
        DELETE FROM new_marks n WHERE n.log = p_log RETURNING n.sources, n.marks
    )
    INSERT INTO sources AS o (log, source, mark)
    SELECT p_log, m.source, max(m.mark) FROM taken t, unnest(t.sources, t.marks) AS m (source, mark) GROUP BY m.source ORDER BY m.source
    ON CONFLICT (log, source) DO UPDATE SET mark = greatest(o.mark, excluded.mark);
END
$$;

-- Where the log ends, the version of each stream and the highest mark of each source, in the order that they are asked for; 0 and -1 for
-- those that the log does not have. p_merge: the caller does not know which marks are not merged yet. The end is read first: what is
-- appended meanwhile makes the caller's append come too late.
CREATE FUNCTION controlplane.known_to_log(p_log text, p_merge boolean, p_stream text[], p_source text[])
RETURNS TABLE (log_position bigint, versions bigint[], marks bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    IF p_merge THEN
        PERFORM merge_marks(p_log);
    END IF;
    log_position := (SELECT h.position FROM log_head h WHERE h.log = p_log);
    versions := ARRAY(
        SELECT coalesce((SELECT e.version FROM events e WHERE e.log = p_log AND e.stream = a.stream ORDER BY e.version DESC LIMIT 1), 0)
        FROM unnest(p_stream) WITH ORDINALITY AS a (stream, ord) ORDER BY a.ord);
    marks := ARRAY(
        SELECT coalesce((SELECT o.mark FROM sources o WHERE o.log = p_log AND o.source = a.source), -1)
        FROM unnest(p_source) WITH ORDINALITY AS a (source, ord) ORDER BY a.ord);
    RETURN NEXT;
END
$$;

-- Append events after a position, each with its version in its stream. Returns 'new' and when it was committed; 'known' and when that was,
-- if the same batch was committed by an earlier try; and if nothing is written, 'moved', since the log does not end at p_after, or 'asked',
-- since it has one of the streams and sources that the caller took for new (p_new_stream, p_new_source). p_source and p_mark are those of
-- the observations among the events. The errors are those of 0003.
CREATE FUNCTION controlplane.append_batch(
    p_log text, p_epoch bigint, p_nonce uuid, p_known uuid, p_batch uuid, p_after bigint,
    p_stream text[], p_version bigint[], p_type text[], p_schema int[], p_data text[], p_reason text[], p_cluster text[],
    p_caused_by bigint[], p_trace text[], p_observed_at timestamptz[], p_source text[], p_mark bigint[], p_new_stream text[], p_new_source text[],
    p_body_hash bytea[], p_body text[]
) RETURNS TABLE (outcome text, committed_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp
-- Always by index: a plan that was made while the tables were small would read all of them at each append once they are not.
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    head record;
    last bigint := p_after + cardinality(p_stream);
BEGIN
    committed_at := clock_timestamp();
    IF cardinality(p_body_hash) > 0 THEN
        INSERT INTO bodies (hash, body, recorded_at)
        SELECT b.hash, b.body::json, committed_at FROM unnest(p_body_hash, p_body) AS b (hash, body)
        ORDER BY b.hash
        ON CONFLICT (hash) DO NOTHING;
    END IF;

    SELECT h.position, h.epoch, h.nonce, h.holder INTO head FROM log_head h WHERE h.log = p_log FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no log %', p_log USING ERRCODE = 'CP002';
    END IF;
    IF head.epoch <> p_epoch OR head.nonce IS DISTINCT FROM p_nonce THEN
        RAISE EXCEPTION 'epoch % of log % is over: epoch % belongs to %', p_epoch, p_log, head.epoch, head.holder
            USING ERRCODE = 'CP001';
    END IF;
    IF p_known IS NOT NULL AND NOT EXISTS (SELECT FROM batches b WHERE b.batch = p_known) THEN
        RAISE EXCEPTION 'log % ends at position % without batch %, which had been committed', p_log, head.position, p_known
            USING ERRCODE = 'CP003', DETAIL = head.position::text;
    END IF;
    IF head.position <> p_after THEN
        SELECT b.recorded_at INTO committed_at FROM batches b WHERE b.batch = p_batch;
        outcome := CASE WHEN FOUND THEN 'known' ELSE 'moved' END;
        RETURN NEXT;
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM streams s WHERE s.log = p_log AND s.stream = ANY (p_new_stream))
       OR EXISTS (SELECT FROM sources o WHERE o.log = p_log AND o.source = ANY (p_new_source)) THEN
        outcome := 'asked';
        RETURN NEXT;
        RETURN;
    END IF;

    INSERT INTO events (log, position, stream, version, type, schema, data, reason, cluster, caused_by, trace, observed_at, recorded_at)
    SELECT p_log, p_after + i.ord, i.stream, i.version, i.type, i.schema, i.data::json, i.reason, i.cluster, nullif(i.caused_by, 0),
           i.trace, i.observed_at, committed_at
    FROM unnest(p_stream, p_version, p_type, p_schema, p_data, p_reason, p_cluster, p_caused_by, p_trace, p_observed_at)
         WITH ORDINALITY AS i (stream, version, type, schema, data, reason, cluster, caused_by, trace, observed_at, ord);
    IF 1 = ANY (p_version) THEN
        INSERT INTO streams (log, stream, version)
        SELECT p_log, i.stream, 1 FROM unnest(p_stream, p_version) AS i (stream, version) WHERE i.version = 1
        ON CONFLICT (log, stream) DO NOTHING;
    END IF;
    IF cardinality(p_source) > 0 THEN
        INSERT INTO new_marks (log, last, sources, marks) VALUES (p_log, last, p_source, p_mark);
    END IF;
    UPDATE log_head h SET position = last WHERE h.log = p_log;
    INSERT INTO batches (log, first, last, batch, epoch, recorded_at) VALUES (p_log, p_after + 1, last, p_batch, p_epoch, committed_at);

    -- An alarm clock, not a courier: it carries no data, and readers poll behind it.
    PERFORM pg_notify('controlplane', p_log);
    outcome := 'new';
    RETURN NEXT;
END
$$;

-- As the version before calls it. It may go on, and come back, while this one is beside it.
CREATE OR REPLACE FUNCTION controlplane.append_events(
    p_log text, p_epoch bigint, p_nonce uuid, p_known uuid, p_batch uuid,
    p_request int[], p_stream text[], p_source text[], p_mark bigint[],
    p_type text[], p_schema int[], p_data text[], p_reason text[], p_cluster text[], p_caused_by bigint[], p_trace text[],
    p_observed_at timestamptz[], p_expected_request int[], p_expected_stream text[], p_expected_version bigint[],
    p_body_hash bytea[], p_body text[]
) RETURNS TABLE (request int, outcome text, log_position bigint, stream_version bigint, committed_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp
-- Always by index: a plan that was made while the tables were small would read all of them at each append once they are not.
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    head record;
    at   timestamptz := clock_timestamp();
BEGIN
    IF cardinality(p_body_hash) > 0 THEN
        INSERT INTO bodies (hash, body, recorded_at)
        SELECT b.hash, b.body::json, at FROM unnest(p_body_hash, p_body) AS b (hash, body)
        ORDER BY b.hash
        ON CONFLICT (hash) DO NOTHING;
    END IF;

    SELECT h.position, h.epoch, h.nonce, h.holder INTO head FROM log_head h WHERE h.log = p_log FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no log %', p_log USING ERRCODE = 'CP002';
    END IF;
    IF head.epoch <> p_epoch OR head.nonce IS DISTINCT FROM p_nonce THEN
        RAISE EXCEPTION 'epoch % of log % is over: epoch % belongs to %', p_epoch, p_log, head.epoch, head.holder
            USING ERRCODE = 'CP001';
    END IF;
    IF p_known IS NOT NULL AND NOT EXISTS (SELECT FROM batches b WHERE b.batch = p_known) THEN
        RAISE EXCEPTION 'log % ends at position % without batch %, which had been committed', p_log, head.position, p_known
            USING ERRCODE = 'CP003', DETAIL = head.position::text;
    END IF;
    IF EXISTS (SELECT FROM batches b WHERE b.batch = p_batch) THEN
        -- The same batch again: it was committed, only the reply was lost. 'known' is true of every event that got in; a
        -- request that was refused then is told so little late: its stream has moved on all the same.
        RETURN QUERY SELECT i.request, 'known', NULL::bigint, NULL::bigint, at FROM unnest(p_request) AS i (request);
        RETURN;
    END IF;

    PERFORM merge_marks(p_log);
    RETURN QUERY
    WITH incoming AS MATERIALIZED (
        SELECT i.* FROM unnest(p_request, p_stream, p_source, p_mark) WITH ORDINALITY AS i (request, stream, source, mark, ord)
    ), newest AS MATERIALIZED (
        SELECT n.stream, (
            SELECT v.version FROM events v WHERE v.log = p_log AND v.stream = n.stream ORDER BY v.version DESC LIMIT 1
        ) AS version
        FROM (SELECT unnest(p_stream) UNION SELECT unnest(p_expected_stream)) AS n (stream)
    ), refused AS MATERIALIZED (
        SELECT DISTINCT e.request
        FROM unnest(p_expected_request, p_expected_stream, p_expected_version) AS e (request, stream, version)
        LEFT JOIN newest s ON s.stream = e.stream
        WHERE e.version <> coalesce(s.version, 0)
    ), checked AS MATERIALIZED (
        SELECT i.*, coalesce(s.version, 0) AS stream_version, o.ctid AS source_row, r.request IS NOT NULL AS refused,
               coalesce(i.mark <= o.mark, false) AS is_known
        FROM incoming i
        LEFT JOIN newest s ON s.stream = i.stream
        LEFT JOIN sources o ON i.source <> '' AND o.log = p_log AND o.source = i.source
        LEFT JOIN refused r ON r.request = i.request
    ), accepted AS MATERIALIZED (
        SELECT c.ord::int AS ord, c.stream, c.source, c.source_row, c.mark, head.position + row_number() OVER (ORDER BY c.ord) AS position,
               c.stream_version + row_number() OVER (PARTITION BY c.stream ORDER BY c.ord) AS version
        FROM checked c WHERE NOT c.is_known AND NOT c.refused
    ), written AS (
        INSERT INTO events (log, position, stream, version, type, schema, data, reason, cluster, caused_by, trace, observed_at,
                            recorded_at)
        SELECT p_log, a.position, a.stream, a.version, p_type[a.ord], p_schema[a.ord], p_data[a.ord]::json, p_reason[a.ord],
               p_cluster[a.ord], nullif(p_caused_by[a.ord], 0), p_trace[a.ord], p_observed_at[a.ord], at
        FROM accepted a
    -- The head is locked, so rows that were read are still where they were, and rows that were missing are missing: an update by
    -- place and a plain insert do, at half the cost of INSERT … ON CONFLICT.
    ), new_streams AS (
        INSERT INTO streams (log, stream, version)
        SELECT p_log, a.stream, 1 FROM accepted a WHERE a.version = 1
        ON CONFLICT (log, stream) DO NOTHING
    ), marked AS (
        UPDATE sources o SET mark = n.mark
        FROM (SELECT a.source_row, max(a.mark) AS mark FROM accepted a WHERE a.source_row IS NOT NULL GROUP BY a.source_row) n
        WHERE o.ctid = n.source_row
    ), new_sources AS (
        INSERT INTO sources (log, source, mark)
        SELECT p_log, a.source, max(a.mark) FROM accepted a WHERE a.source_row IS NULL AND a.source <> '' GROUP BY a.source
    ), moved AS (
        UPDATE log_head h SET position = h.position + n.count
        FROM (SELECT count(*) AS count FROM accepted) n
        WHERE h.log = p_log AND n.count > 0
    ), batched AS (
        INSERT INTO batches (log, first, last, batch, epoch, recorded_at)
        SELECT p_log, min(a.position), max(a.position), p_batch, p_epoch, at FROM accepted a HAVING count(*) > 0
    )
    SELECT c.request, CASE WHEN c.refused THEN 'conflict' WHEN c.is_known THEN 'known' ELSE 'new' END, a.position, a.version, at
    FROM checked c LEFT JOIN accepted a ON a.ord = c.ord ORDER BY c.ord;

    -- An alarm clock, not a courier: it carries no data, and readers poll behind it.
    PERFORM pg_notify('controlplane', p_log);
END
$$;

CREATE OR REPLACE VIEW audit.streams AS
SELECT s.log, s.stream, split_part(s.stream, '/', 1) AS kind,
       substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       (SELECT e.version FROM controlplane.events e WHERE e.log = s.log AND e.stream = s.stream ORDER BY e.version DESC LIMIT 1) AS events
FROM controlplane.streams s;

DO $$
DECLARE
    name regprocedure;
BEGIN
    FOR name IN SELECT p.oid FROM pg_proc p
                WHERE p.pronamespace = 'controlplane'::regnamespace AND p.proname IN ('append_batch', 'known_to_log', 'merge_marks') LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name);
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION controlplane.append_batch, controlplane.known_to_log TO controlplane_service;
GRANT SELECT ON controlplane.new_marks TO controlplane_service;
