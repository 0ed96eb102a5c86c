-- A batch's hash is made of the hash of the batch before, of what the batch is, and of the hash of each of its rows: whoever changes a row,
-- takes one out or puts one in has to make all hashes after it anew, and then they are not those that were written down elsewhere.
-- `log_head.batch` is the last batch; `chained_from` the first position of the chain. What is before it was appended by a version that made
-- no hashes.
ALTER TABLE controlplane.log_head ADD COLUMN batch uuid, ADD COLUMN chained_from bigint NOT NULL DEFAULT 1;
UPDATE controlplane.log_head h
SET chained_from = h.position + 1, batch = (SELECT b.batch FROM controlplane.batches b WHERE b.log = h.log ORDER BY b.last DESC LIMIT 1);

-- The hash of a row. The encoding is that of a row sent in binary: the number of columns, and of each its type, its length (-1 for null)
-- and its bytes. `json` is sent as it was written, a text in the client's encoding, which has to be UTF-8.
CREATE FUNCTION controlplane.event_hash(
    "position" bigint, stream text, version bigint, type text, schema smallint, data json, reason text, cluster text,
    caused_by bigint, trace text, observed_at timestamptz, recorded_at timestamptz
) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256(record_send(ROW($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)));

-- The hash of a batch. `before` is that of the batch before it, null for the first one of a chain; `rows` are the hashes of its rows, in order.
CREATE FUNCTION controlplane.batch_hash(
    before bytea, log text, id uuid, batch uuid, first bigint, last bigint, epoch bigint, recorded_at timestamptz, rows bytea
) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256(record_send(ROW($1, $2, $3, $4, $5, $6, $7, $8, sha256($9))));

-- As in 0008, and the batch has its hash. What need not be asked is not: the tables of streams and sources if nothing is taken for new,
-- that of batches if the caller knows the last one.
CREATE OR REPLACE FUNCTION controlplane.append_batch(
    p_log text, p_epoch bigint, p_nonce uuid, p_known uuid, p_batch uuid, p_after bigint,
    p_stream text[], p_version bigint[], p_type text[], p_schema int[], p_data text[], p_reason text[], p_cluster text[],
    p_caused_by bigint[], p_trace text[], p_observed_at timestamptz[], p_source text[], p_mark bigint[], p_new_stream text[], p_new_source text[],
    p_body_hash bytea[], p_body text[]
) RETURNS TABLE (outcome text, committed_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp
-- Always by index: a plan that was made while the tables were small would read all of them at each append once they are not.
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
-- Hashes are of texts in UTF-8, whatever the client's encoding is.
SET client_encoding = 'UTF8'
AS $$
DECLARE
    head record;
    last bigint := p_after + cardinality(p_stream);
    rows bytea;
    tip  bytea;
BEGIN
    committed_at := clock_timestamp();
    IF cardinality(p_body_hash) > 0 THEN
        INSERT INTO bodies (hash, body, recorded_at)
        SELECT b.hash, b.body::json, committed_at FROM unnest(p_body_hash, p_body) AS b (hash, body)
        ORDER BY b.hash
        ON CONFLICT (hash) DO NOTHING;
    END IF;

    SELECT h.position, h.epoch, h.nonce, h.holder, h.id, h.batch, h.hash INTO head FROM log_head h WHERE h.log = p_log FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no log %', p_log USING ERRCODE = 'CP002';
    END IF;
    IF head.epoch <> p_epoch OR head.nonce IS DISTINCT FROM p_nonce THEN
        RAISE EXCEPTION 'epoch % of log % is over: epoch % belongs to %', p_epoch, p_log, head.epoch, head.holder
            USING ERRCODE = 'CP001';
    END IF;
    -- Who appended last knows the last batch: no look-up is needed.
    IF p_known IS NOT NULL AND p_known IS DISTINCT FROM head.batch AND NOT EXISTS (SELECT FROM batches b WHERE b.batch = p_known) THEN
        RAISE EXCEPTION 'log % ends at position % without batch %, which had been committed', p_log, head.position, p_known
            USING ERRCODE = 'CP003', DETAIL = head.position::text;
    END IF;
    IF head.position <> p_after THEN
        SELECT b.recorded_at INTO committed_at FROM batches b WHERE b.batch = p_batch;
        outcome := CASE WHEN FOUND THEN 'known' ELSE 'moved' END;
        RETURN NEXT;
        RETURN;
    END IF;
    IF cardinality(p_new_stream) > 0 AND EXISTS (SELECT FROM streams s WHERE s.log = p_log AND s.stream = ANY (p_new_stream))
       OR cardinality(p_new_source) > 0 AND EXISTS (SELECT FROM sources o WHERE o.log = p_log AND o.source = ANY (p_new_source)) THEN
        outcome := 'asked';
        RETURN NEXT;
        RETURN;
    END IF;

    -- What is hashed is what the table has now. The rows come out as they went in, one after the other. The arrays go side by side, and
    -- none of them is copied first, as in FROM unnest(…, …): that takes 16 KiB for each array, and a small append has to ask the system for
    -- memory.
    WITH written AS (
        INSERT INTO events (log, position, stream, version, type, schema, data, reason, cluster, caused_by, trace, observed_at, recorded_at)
        SELECT p_log, p_after + i.ord, i.stream, i.version, i.type, i.schema, i.data::json, i.reason, i.cluster, nullif(i.caused_by, 0),
               i.trace, i.observed_at, committed_at
        FROM (SELECT unnest(p_stream) AS stream, unnest(p_version) AS version, unnest(p_type) AS type, unnest(p_schema) AS schema,
                     unnest(p_data) AS data, unnest(p_reason) AS reason, unnest(p_cluster) AS cluster, unnest(p_caused_by) AS caused_by,
                     unnest(p_trace) AS trace, unnest(p_observed_at) AS observed_at, generate_subscripts(p_stream, 1) AS ord) i
        RETURNING event_hash(position, stream, version, type, schema, data, reason, cluster, caused_by, trace, observed_at, recorded_at) AS hash
    )
    SELECT string_agg(w.hash, '') INTO rows FROM written w;
    tip := batch_hash(head.hash, p_log, head.id, p_batch, p_after + 1, last, p_epoch, committed_at, rows);
    IF 1 = ANY (p_version) THEN
        INSERT INTO streams (log, stream, version)
        SELECT p_log, i.stream, 1 FROM (SELECT unnest(p_stream) AS stream, unnest(p_version) AS version) i WHERE i.version = 1
        ON CONFLICT (log, stream) DO NOTHING;
    END IF;
    IF cardinality(p_source) > 0 THEN
        INSERT INTO new_marks (log, last, sources, marks) VALUES (p_log, last, p_source, p_mark);
    END IF;
    UPDATE log_head h SET position = last, batch = p_batch, hash = tip WHERE h.log = p_log;
    INSERT INTO batches (log, first, last, batch, epoch, recorded_at, hash)
    VALUES (p_log, p_after + 1, last, p_batch, p_epoch, committed_at, tip);

    -- An alarm clock, not a courier: it carries no data, and readers poll behind it.
    PERFORM pg_notify('controlplane', p_log);
    outcome := 'new';
    RETURN NEXT;
END
$$;

-- As the version before the last calls it; its batches are in the chain too.
CREATE OR REPLACE FUNCTION controlplane.append_events(
    p_log text, p_epoch bigint, p_nonce uuid, p_known uuid, p_batch uuid,
    p_request int[], p_stream text[], p_source text[], p_mark bigint[],
    p_type text[], p_schema int[], p_data text[], p_reason text[], p_cluster text[], p_caused_by bigint[], p_trace text[],
    p_observed_at timestamptz[], p_expected_request int[], p_expected_stream text[], p_expected_version bigint[],
    p_body_hash bytea[], p_body text[]
) RETURNS TABLE (request int, outcome text, log_position bigint, stream_version bigint, committed_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp
-- Always by index: a plan that was made while the tables were small would read all of them at each append once they are not.
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET client_encoding = 'UTF8'
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

    SELECT h.position, h.epoch, h.nonce, h.holder, h.id, h.hash INTO head FROM log_head h WHERE h.log = p_log FOR UPDATE;
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
        RETURNING position, event_hash(position, stream, version, type, schema, data, reason, cluster, caused_by, trace, observed_at, recorded_at) AS hash
    ), chained AS (
        SELECT min(w.position) AS first, max(w.position) AS last,
               batch_hash(head.hash, p_log, head.id, p_batch, min(w.position), max(w.position), p_epoch, at,
                          string_agg(w.hash, '' ORDER BY w.position)) AS tip
        FROM written w HAVING count(*) > 0
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
        UPDATE log_head h SET position = c.last, batch = p_batch, hash = c.tip FROM chained c WHERE h.log = p_log
    ), batched AS (
        INSERT INTO batches (log, first, last, batch, epoch, recorded_at, hash)
        SELECT p_log, c.first, c.last, p_batch, p_epoch, at, c.tip FROM chained c
    )
    SELECT c.request, CASE WHEN c.refused THEN 'conflict' WHEN c.is_known THEN 'known' ELSE 'new' END, a.position, a.version, at
    FROM checked c LEFT JOIN accepted a ON a.ord = c.ord ORDER BY c.ord;

    -- An alarm clock, not a courier: it carries no data, and readers poll behind it.
    PERFORM pg_notify('controlplane', p_log);
END
$$;

REVOKE ALL ON FUNCTION controlplane.event_hash, controlplane.batch_hash FROM PUBLIC;
GRANT EXECUTE ON FUNCTION controlplane.event_hash, controlplane.batch_hash TO controlplane_service;
