-- As `append`, and each event comes back with its place: the leader folds what it committed without reading it again. The place is null for
-- whatever is not new; also when the same batch comes again, since the reply alone was lost: then it is read.
-- The plan does not depend on the arrays; without the setting it is made anew for most calls, which costs more than a small append.
CREATE FUNCTION controlplane.append_events(
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

    RETURN QUERY
    WITH incoming AS MATERIALIZED (
        SELECT i.* FROM unnest(p_request, p_stream, p_source, p_mark) WITH ORDINALITY AS i (request, stream, source, mark, ord)
    ), refused AS MATERIALIZED (
        SELECT DISTINCT e.request
        FROM unnest(p_expected_request, p_expected_stream, p_expected_version) AS e (request, stream, version)
        LEFT JOIN streams s ON s.log = p_log AND s.stream = e.stream
        WHERE e.version <> coalesce(s.version, 0)
    ), checked AS MATERIALIZED (
        SELECT i.*, coalesce(s.version, 0) AS stream_version, s.ctid AS stream_row, o.ctid AS source_row, r.request IS NOT NULL AS refused,
               coalesce(i.mark <= o.mark, false) AS is_known
        FROM incoming i
        LEFT JOIN streams s ON s.log = p_log AND s.stream = i.stream
        LEFT JOIN sources o ON i.source <> '' AND o.log = p_log AND o.source = i.source
        LEFT JOIN refused r ON r.request = i.request
    ), accepted AS MATERIALIZED (
        SELECT c.ord::int AS ord, c.stream, c.stream_row, c.source, c.source_row, c.mark, head.position + row_number() OVER (ORDER BY c.ord) AS position,
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
    ), versioned AS (
        UPDATE streams s SET version = n.version
        FROM (SELECT a.stream_row, max(a.version) AS version FROM accepted a WHERE a.stream_row IS NOT NULL GROUP BY a.stream_row) n
        WHERE s.ctid = n.stream_row
    ), new_streams AS (
        INSERT INTO streams (log, stream, version)
        SELECT p_log, a.stream, max(a.version) FROM accepted a WHERE a.stream_row IS NULL GROUP BY a.stream
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

-- As the version before calls it.
CREATE OR REPLACE FUNCTION controlplane.append(
    p_log text, p_epoch bigint, p_nonce uuid, p_known uuid, p_batch uuid,
    p_request int[], p_stream text[], p_source text[], p_mark bigint[],
    p_type text[], p_schema int[], p_data text[], p_reason text[], p_cluster text[], p_caused_by bigint[], p_trace text[],
    p_observed_at timestamptz[], p_expected_request int[], p_expected_stream text[], p_expected_version bigint[],
    p_body_hash bytea[], p_body text[]
) RETURNS TABLE (request int, outcome text)
LANGUAGE sql SECURITY DEFINER SET search_path = controlplane, pg_temp
AS $$
    SELECT a.request, a.outcome FROM append_events(
        p_log, p_epoch, p_nonce, p_known, p_batch, p_request, p_stream, p_source, p_mark, p_type, p_schema, p_data, p_reason, p_cluster,
        p_caused_by, p_trace, p_observed_at, p_expected_request, p_expected_stream, p_expected_version, p_body_hash, p_body) AS a
$$;

REVOKE ALL ON FUNCTION controlplane.append_events FROM PUBLIC;
GRANT EXECUTE ON FUNCTION controlplane.append_events TO controlplane_service;
