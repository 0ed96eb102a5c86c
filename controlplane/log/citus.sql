-- What Citus refuses in the functions of the schema, and what takes its place where the log is distributed (controlplane/log/citus.py).
-- A section begins with the name of a function and the number of its arguments; in it, "take" is the text that is there, "put" that
-- which comes instead. An append looks for a batch in its log. It hashes what it inserts, since rows of an INSERT come back from no
-- other node into the same statement.
-- function append_batch 22
-- take
WHERE b.batch = p_known
-- put
WHERE b.log = p_log AND b.batch = p_known
-- take
WHERE b.batch = p_batch
-- put
WHERE b.log = p_log AND b.batch = p_batch
-- take
    WITH written AS (
        INSERT INTO events
-- put
        INSERT INTO events
-- take
generate_subscripts(p_stream, 1) AS ord) i
        RETURNING event_hash(position, stream, version, type, schema, data, reason, cluster, caused_by, trace, observed_at, recorded_at) AS hash
    )
    SELECT string_agg(w.hash, '') INTO rows FROM written w;
-- put
generate_subscripts(p_stream, 1) AS ord) i;
    SELECT string_agg(event_hash(p_after + i.ord, i.stream, i.version, i.type, i.schema::smallint, i.data::json, i.reason, i.cluster,
                                 nullif(i.caused_by, 0), i.trace, i.observed_at, committed_at), '' ORDER BY i.ord) INTO rows
    FROM (SELECT unnest(p_stream) AS stream, unnest(p_version) AS version, unnest(p_type) AS type, unnest(p_schema) AS schema,
                 unnest(p_data) AS data, unnest(p_reason) AS reason, unnest(p_cluster) AS cluster, unnest(p_caused_by) AS caused_by,
                 unnest(p_trace) AS trace, unnest(p_observed_at) AS observed_at, generate_subscripts(p_stream, 1) AS ord) i;
-- The sign that was seen is compared under the lock of the head, and the clock is read before the statement.
-- function take_epoch 4
-- take
LANGUAGE sql
-- put
LANGUAGE plpgsql
-- take
    INSERT INTO log_head AS h (log, epoch, holder, nonce, renewed_at) VALUES (p_log, 1, p_holder, p_nonce, clock_timestamp())
    ON CONFLICT (log) DO UPDATE
    SET epoch = h.epoch + 1, holder = excluded.holder, nonce = excluded.nonce, renewed_at = excluded.renewed_at, beat = h.beat + 1
    WHERE p_seen IS NULL OR concat_ws(' ', h.epoch, h.beat, extract(epoch FROM h.renewed_at)) = p_seen
    RETURNING h.position, h.epoch;
-- put
DECLARE
    at   timestamptz := clock_timestamp();
    head record;
BEGIN
    INSERT INTO log_head (log, epoch, holder, renewed_at) VALUES (p_log, 0, '', '-infinity') ON CONFLICT DO NOTHING;
    SELECT h.* INTO head FROM log_head h WHERE h.log = p_log FOR UPDATE;
    IF head.epoch > 0 AND concat_ws(' ', head.epoch, head.beat, extract(epoch FROM head.renewed_at)) <> p_seen THEN
        RETURN;
    END IF;
    UPDATE log_head h SET epoch = head.epoch + 1, holder = p_holder, nonce = p_nonce, renewed_at = at,
                          beat = head.beat + CASE WHEN head.epoch > 0 THEN 1 ELSE 0 END
    WHERE h.log = p_log;
    log_position := head.position;
    log_epoch := head.epoch + 1;
    RETURN NEXT;
END
-- function renew_epoch 4
-- take
BEGIN
-- put
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
-- take
ELSE clock_timestamp() END
-- put
ELSE at END
-- A partition is made on the coordinator alone, and over one connection to each node. Who appends on another node finds those that
-- `controlplane db distribute` has made ahead.
-- function room_ahead 3
-- take
 SET lock_timeout TO '500ms'
-- put
 SET lock_timeout TO '500ms'
 SET "citus.multi_shard_modify_mode" TO 'sequential'
-- take
BEGIN
    RETURN make_room
-- put
BEGIN
    IF to_regclass('pg_catalog.pg_dist_local_group') IS NOT NULL THEN
        IF EXISTS (SELECT FROM pg_catalog.pg_dist_local_group l WHERE l.groupid <> 0) THEN
            IF p_last < partitions_end() THEN
                RETURN partitions_end();
            END IF;
            RAISE EXCEPTION 'log % has no partition for position %, and they are made on the coordinator alone', p_log, p_last
                USING ERRCODE = 'CP004', HINT = 'Run `controlplane db distribute`.';
        END IF;
    END IF;
    RETURN make_room
-- Each table says which log, so that all of the statement is for one node.
-- function keep_snapshot 9
-- take
LEFT JOIN log_head h ON h.log = o.log
-- put
LEFT JOIN log_head h ON h.log = p_log
-- take
WHERE b.log = o.log AND b.last >= o.position
-- put
WHERE b.log = p_log AND b.last >= o.position
-- Citus takes no rows of these views into a table. Nothing is kept, and all views say what they say from the events.
-- function keep_read_models 3
-- take
    ended := least(
-- put
    RETURN begun;
    ended := least(
