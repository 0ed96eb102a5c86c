-- A log is known by an identity that it gets when it is made, and its holder by a nonce of its own: two processes that took the same epoch,
-- one of them on a primary whose last commits were lost with it, are told apart. `beat` counts the holder's signs of life, so that whoever
-- watches can tell by its own clock that there are no new ones, whatever this server's clock does.
ALTER TABLE controlplane.log_head
    ADD COLUMN id    uuid   NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN nonce uuid,
    ADD COLUMN beat  bigint NOT NULL DEFAULT 0;

-- As before, and: p_nonce is the holder's own (null for the version before this one); p_known is the last batch that the caller knows to
-- be in the log. One that is not there means that the log went back: a backup was restored, or a standby was promoted that lacked it.
-- Errors: CP001 = epoch or nonce are not the current ones; CP002 = there is no such log; CP003 = the log went back (DETAIL: where it ends).
CREATE FUNCTION controlplane.append(
    p_log text, p_epoch bigint, p_nonce uuid, p_known uuid, p_batch uuid,
    p_request int[], p_stream text[], p_source text[], p_mark bigint[],
    p_type text[], p_schema int[], p_data text[], p_reason text[], p_cluster text[], p_caused_by bigint[], p_trace text[],
    p_observed_at timestamptz[], p_expected_request int[], p_expected_stream text[], p_expected_version bigint[],
    p_body_hash bytea[], p_body text[]
) RETURNS TABLE (request int, outcome text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp
-- Always by index: a plan that was made while the tables were small would read all of them at each append once they are not.
SET enable_seqscan = off
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
        RETURN QUERY SELECT i.request, 'known' FROM unnest(p_request) AS i (request);
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
    SELECT c.request, CASE WHEN c.refused THEN 'conflict' WHEN c.is_known THEN 'known' ELSE 'new' END
    FROM checked c ORDER BY c.ord;

    -- An alarm clock, not a courier: it carries no data, and readers poll behind it.
    PERFORM pg_notify('controlplane', p_log);
END
$$;

-- The version before this one calls without a nonce: it may append only to a log that was taken without one.
CREATE OR REPLACE FUNCTION controlplane.append(
    p_log text, p_epoch bigint, p_batch uuid,
    p_request int[], p_stream text[], p_source text[], p_mark bigint[],
    p_type text[], p_schema int[], p_data text[], p_reason text[], p_cluster text[], p_caused_by bigint[], p_trace text[],
    p_observed_at timestamptz[], p_expected_request int[], p_expected_stream text[], p_expected_version bigint[],
    p_body_hash bytea[], p_body text[]
) RETURNS TABLE (request int, outcome text)
LANGUAGE sql SECURITY DEFINER SET search_path = controlplane, pg_temp
AS $$
    SELECT a.request, a.outcome FROM append(
        p_log, p_epoch, NULL::uuid, NULL::uuid, p_batch, p_request, p_stream, p_source, p_mark, p_type, p_schema, p_data, p_reason, p_cluster,
        p_caused_by, p_trace, p_observed_at, p_expected_request, p_expected_stream, p_expected_version, p_body_hash, p_body) AS a
$$;

-- Take over a log: create it if it is new, bump its epoch. Whoever held it before can append no more. With p_seen (the epoch, the beat and
-- renewed_at of log_head, as text), no row comes back, and nothing changes, if the holder has given another sign of life since. Time has
-- no say here: the caller has watched for a lease by its own clock.
CREATE FUNCTION controlplane.take_epoch(p_log text, p_holder text, p_nonce uuid, p_seen text)
RETURNS TABLE (log_position bigint, log_epoch bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = controlplane, pg_temp SET timezone = 'UTC'
AS $$
    INSERT INTO log_head AS h (log, epoch, holder, nonce, renewed_at) VALUES (p_log, 1, p_holder, p_nonce, clock_timestamp())
    ON CONFLICT (log) DO UPDATE
    SET epoch = h.epoch + 1, holder = excluded.holder, nonce = excluded.nonce, renewed_at = excluded.renewed_at, beat = h.beat + 1
    WHERE p_seen IS NULL OR concat_ws(' ', h.epoch, h.beat, extract(epoch FROM h.renewed_at)) = p_seen
    RETURNING h.position, h.epoch;
$$;

-- As the version before calls it.
CREATE OR REPLACE FUNCTION controlplane.take_epoch(p_log text, p_holder text, p_lease interval DEFAULT '0')
RETURNS TABLE (log_position bigint, log_epoch bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = controlplane, pg_temp
AS $$
    INSERT INTO log_head AS h (log, epoch, holder, renewed_at) VALUES (p_log, 1, p_holder, clock_timestamp())
    ON CONFLICT (log) DO UPDATE
    SET epoch = h.epoch + 1, holder = excluded.holder, nonce = NULL, renewed_at = excluded.renewed_at, beat = h.beat + 1
    WHERE h.renewed_at + p_lease <= clock_timestamp()
    RETURNING h.position, h.epoch;
$$;

-- Give a sign of life, or with p_resign the last one, so that the next need not wait. Errors: CP001 as in append.
CREATE FUNCTION controlplane.renew_epoch(p_log text, p_epoch bigint, p_nonce uuid, p_resign boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp
AS $$
BEGIN
    UPDATE log_head h
    SET renewed_at = CASE WHEN p_resign THEN '-infinity' ELSE clock_timestamp() END, beat = h.beat + 1
    WHERE h.log = p_log AND h.epoch = p_epoch AND h.nonce IS NOT DISTINCT FROM p_nonce;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'epoch % of log % is over', p_epoch, p_log USING ERRCODE = 'CP001';
    END IF;
END
$$;
CREATE OR REPLACE FUNCTION controlplane.renew_epoch(p_log text, p_epoch bigint, p_resign boolean DEFAULT false) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = controlplane, pg_temp
AS $$
    SELECT renew_epoch(p_log, p_epoch, NULL::uuid, p_resign)
$$;
