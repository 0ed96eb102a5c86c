-- Old events leave the database when they are in an archive, and stream by stream: those of streams that are over. `archived_to` is the
-- position up to which that was done; 0: nothing left. Of what is up to there the log has the events of the streams that go on, and of its
-- chain the batch that ends there: `kept_events` says how many events these are, and `kept_hash` is the SHA-256 over the hashes of their
-- rows, in order.
ALTER TABLE controlplane.log_head ADD COLUMN archived_to bigint NOT NULL DEFAULT 0, ADD COLUMN kept_events bigint NOT NULL DEFAULT 0,
    ADD COLUMN kept_hash bytea;

-- Of a stream whose events left: the position of the last of them, and in `version` its version. A stream leaves as a whole. If it
-- begins again, it goes on from there.
ALTER TABLE controlplane.streams ADD COLUMN archived_to bigint;

CREATE TABLE controlplane.archives (
    log         text   COLLATE "C" NOT NULL,
    first       bigint NOT NULL,
    last        bigint NOT NULL,
    since       timestamptz NOT NULL,
    until       timestamptz NOT NULL,
    directory   text   NOT NULL,
    hash        bytea  NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    dropped_at  timestamptz,
    PRIMARY KEY (log, first)
);
GRANT SELECT ON controlplane.archives TO controlplane_service;

CREATE VIEW audit.archives AS
SELECT a.log, a.first, a.last, a.since, a.until, a.directory, encode(a.hash, 'hex') AS hash, a.archived_at, a.dropped_at
FROM controlplane.archives a;
GRANT SELECT ON audit.archives TO controlplane_reader, controlplane_service;

CREATE OR REPLACE VIEW audit.streams AS
SELECT s.log, s.stream, split_part(s.stream, '/', 1) AS kind,
       substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       coalesce((SELECT e.version FROM controlplane.events e WHERE e.log = s.log AND e.stream = s.stream ORDER BY e.version DESC LIMIT 1),
                s.version) AS events,
       s.archived_to
FROM controlplane.streams s;

-- By bisection: what is recorded at a position is recorded no later than what comes after it. Where positions are in archives alone, the
-- last event before them says when that was.
CREATE OR REPLACE FUNCTION audit.position_at(log text, at timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    low  bigint := 0;
    high bigint := (SELECT e.position FROM audit.events e WHERE e.log = $1 ORDER BY e.position DESC LIMIT 1);
    mid  bigint;
    seen timestamptz;
BEGIN
    WHILE low < high LOOP
        mid := (low + high + 1) / 2;
        seen := (SELECT e.recorded_at FROM audit.events e WHERE e.log = $1 AND e.position = mid);
        IF seen IS NULL THEN
            seen := (SELECT e.recorded_at FROM audit.events e WHERE e.log = $1 AND e.position <= mid ORDER BY e.position DESC LIMIT 1);
        END IF;
        IF seen IS NULL OR seen <= $2 THEN
            low := mid;
        ELSE
            high := mid - 1;
        END IF;
    END LOOP;
    RETURN CASE WHEN EXISTS (SELECT FROM audit.events e WHERE e.log = $1 AND e.position <= low) THEN low ELSE 0 END;
END
$$;
