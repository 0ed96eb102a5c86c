-- The ledger of quota: each reservation, and whatever came or went otherwise, by flavor and resource. As in 0010: from `streams` to `events` by
-- the stream. A decision holds what is added to what the Workload has; the sums run over the Workload's own entries.
CREATE VIEW audit.quota_ledger AS
SELECT l.log, l.namespace, l.name, l.position, l.at, l.entry, l.reason, l.cluster_queue, l.flavor, l.resource, l.amount,
       sum(l.amount) OVER (PARTITION BY l.log, l.namespace, l.name, l.cluster_queue, l.flavor, l.resource ORDER BY l.position)::bigint AS balance,
       l.borrowed, l.caused_by
FROM (
    SELECT s.log, split_part(s.stream, '/', 3) AS namespace, split_part(s.stream, '/', 4) AS name,
           e.position, e.at, e.type AS entry, e.reason, e.d ->> 'cluster_queue' AS cluster_queue,
           f.key AS flavor, r.key AS resource, r.value::bigint AS amount,
           coalesce((e.d -> 'borrowed' -> f.key ->> r.key)::bigint, 0) AS borrowed, e.caused_by
    FROM controlplane.streams s
    CROSS JOIN LATERAL (
        SELECT e.position, e.recorded_at AS at, e.type, e.reason, e.caused_by,
               replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
        FROM controlplane.events e
        WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('QuotaReservationDecided', 'QuotaPosted')
        OFFSET 0
    ) e
    CROSS JOIN LATERAL jsonb_each(coalesce(e.d -> 'amounts', '{}'::jsonb)) f
    CROSS JOIN LATERAL jsonb_each_text(f.value) r
    WHERE s.stream LIKE 'admission/workload/%'
) l;
