-- What a process had folded of a log up to a position, in parts and chunks. All of it is derived from the events: whoever drops it loses
-- time and nothing else. log_id and batch say which log it is of, and which event that log had at the position: after a restore from a
-- backup another event may be there. Chunk 0 of the part '' says what else there is.
CREATE TABLE controlplane.snapshots (
    log          text   COLLATE "C" NOT NULL,
    position     bigint NOT NULL,
    fold_version text   COLLATE "C" NOT NULL,
    part         text   COLLATE "C" NOT NULL,
    chunk        int    NOT NULL,
    log_id       uuid   NOT NULL,
    batch        uuid   NOT NULL,
    data         bytea  NOT NULL,
    checksum     bytea  NOT NULL,
    written_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (log, fold_version, position, part, chunk)
);
ALTER TABLE controlplane.snapshots ALTER COLUMN data SET STORAGE EXTERNAL; -- it is compressed already

-- Keep a snapshot, whole or not at all. Returns whether it was kept: not if the log is not, or no longer, the one that it is of, nor if
-- there is one of the same fold at its position or later. Of each fold the newest two stay, and of other folds than this one those of the
-- newest two: during a rollout two versions run, and the one before may be needed again. What is of another log, or of what the log had
-- before a backup was restored, goes.
CREATE FUNCTION controlplane.keep_snapshot(p_log text, p_position bigint, p_fold_version text, p_id uuid, p_batch uuid,
                                           p_part text[], p_chunk int[], p_data bytea[], p_checksum bytea[])
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = controlplane, pg_temp
AS $$
BEGIN
    -- One after the other, and no append waits for it.
    PERFORM pg_advisory_xact_lock(hashtextextended('controlplane.snapshots ' || p_log, 0));
    DELETE FROM snapshots s WHERE s.log = p_log AND (s.position, s.fold_version) IN (
        SELECT o.position, o.fold_version FROM snapshots o LEFT JOIN log_head h ON h.log = o.log
        WHERE o.log = p_log AND o.part = '' AND o.chunk = 0 AND (
            h.id IS DISTINCT FROM o.log_id OR o.position > h.position OR o.batch IS DISTINCT FROM (
                SELECT b.batch FROM batches b WHERE b.log = o.log AND b.last >= o.position ORDER BY b.last LIMIT 1)));
    IF NOT EXISTS (
        SELECT FROM log_head h WHERE h.log = p_log AND h.id = p_id AND h.position >= p_position AND p_batch = (
            SELECT b.batch FROM batches b WHERE b.log = p_log AND b.last >= p_position ORDER BY b.last LIMIT 1)
    ) OR EXISTS (
        SELECT FROM snapshots s WHERE s.log = p_log AND s.fold_version = p_fold_version AND s.position >= p_position
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO snapshots (log, position, fold_version, part, chunk, log_id, batch, data, checksum)
    SELECT p_log, p_position, p_fold_version, c.part, c.chunk, p_id, p_batch, c.data, c.checksum
    FROM unnest(p_part, p_chunk, p_data, p_checksum) AS c (part, chunk, data, checksum);
    WITH kept AS (
        SELECT s.position, s.fold_version, row_number() OVER (PARTITION BY s.fold_version ORDER BY s.position DESC) AS of_fold
        FROM snapshots s WHERE s.log = p_log AND s.part = '' AND s.chunk = 0
    ), folds AS (
        SELECT k.fold_version, row_number() OVER (ORDER BY max(k.position) DESC) AS nth
        FROM kept k WHERE k.fold_version <> p_fold_version GROUP BY k.fold_version
    )
    DELETE FROM snapshots s USING kept k LEFT JOIN folds f ON f.fold_version = k.fold_version
    WHERE s.log = p_log AND s.position = k.position AND s.fold_version = k.fold_version AND (k.of_fold > 2 OR f.nth > 2);
    RETURN true;
END
$$;

REVOKE ALL ON FUNCTION controlplane.keep_snapshot FROM PUBLIC;
GRANT EXECUTE ON FUNCTION controlplane.keep_snapshot TO controlplane_service;
GRANT SELECT ON controlplane.snapshots TO controlplane_service;
