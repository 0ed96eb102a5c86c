-- Parts of views of 0009, each after a line that says `next`. Of runs: where a slice's job was next seen to be that of another slice.
-- next --

            SELECT k.*, m.position IS NOT NULL AS moved,
                   -- until that is seen, a slice that was replaced has run until then
                   coalesce(m.position, k.own_position, CASE WHEN k.replaced > k.position THEN k.replaced END) AS next_position,
                   coalesce(m.at, k.own_at, CASE WHEN k.replaced > k.position THEN k.replaced_at END) AS next_at,
                   coalesce(k.own_finished, k.replaced IS NOT NULL) AS next_finished
            FROM (
-- next --

            LEFT JOIN LATERAL (
                -- the slices of a job have its name in theirs, and five characters behind it
                SELECT e.position, e.recorded_at AS at
                FROM controlplane.streams o
                JOIN controlplane.events e ON e.log = o.log AND e.stream = o.stream
                WHERE k.runs AND k.elastic AND o.log = s.log AND o.stream > left(s.stream, -5) AND o.stream < left(s.stream, -5) || '~'
                  AND o.stream <> s.stream AND e.type = 'RemoteJobObserved' AND e.cluster = k.cluster AND e.position > k.position
                  AND e.position < coalesce(k.own_position, 9223372036854775807)
                  AND replace(e.data::text, '\u0000', '\ufffd')::jsonb ->> 'uid' = k.job_uid
                ORDER BY e.position LIMIT 1
            ) m ON true
        
-- next --
SELECT w.*, bool_or(w.own) OVER (PARTITION BY w.type LIKE 'RemoteJob%', w.cluster, w.d ->> 'uid' ORDER BY w.position) AS was_own
                        FROM (SELECT v.*, NOT coalesce(v.d ->> 'kind' = 'pods' AND v.d ->> 'name' <> coalesce(
                                   first_value(v.owner_now) OVER (PARTITION BY v.faces_now ORDER BY v.position), o.job), false) AS own
                        FROM (SELECT u.*, CASE WHEN u.type = 'WorkloadObserved' THEN u.d -> 'owner' ->> 'name' END AS owner_now,
                                     count(*) FILTER (WHERE u.type = 'WorkloadObserved') OVER (ORDER BY u.position) AS faces_now
                        FROM (
-- next --
                        ) u) v) w) q
-- next --
                            UNION ALL
                            -- pods that were the first of their group before
                            SELECT e.position, e.recorded_at, e.type, e.cluster, e.reason, e.caused_by, replace(e.data::text, '\u0000', '\ufffd')::jsonb
                            FROM (SELECT DISTINCT replace(f.data::text, '\u0000', '\ufffd')::jsonb -> 'owner' ->> 'name' AS job FROM controlplane.events f
                                  WHERE o.kind = 'Pod' AND f.log = s.log AND f.stream = s.stream AND f.type = 'WorkloadObserved') p
                            JOIN controlplane.streams j ON j.log = s.log AND j.stream LIKE 'job/%'
                              AND substring(j.stream FROM '/([^/]+)/[^/]+$') = substring(s.stream FROM '/([^/]+)/[^/]+$')
                              AND substring(j.stream FROM '/([^/]+)$') = p.job
                            JOIN controlplane.events e ON e.log = j.log AND e.stream = j.stream
                            WHERE p.job <> o.job
                            UNION ALL
                            -- the copy that the Workloads of a LeaderWorkerSet share is on the stream of one of them
                            SELECT e.position, e.recorded_at, e.type, e.cluster, e.reason, e.caused_by, replace(e.data::text, '\u0000', '\ufffd')::jsonb
                            FROM (SELECT substring(s.stream FROM '^(.*-)[0-9]+-[^-/]+$') AS prefix) n
                            JOIN controlplane.streams j ON j.log = s.log AND j.stream > n.prefix AND j.stream < n.prefix || '~' AND j.stream <> s.stream
                            JOIN controlplane.events e ON e.log = j.log AND e.stream = j.stream
                            WHERE o.kind = 'LeaderWorkerSet' AND e.type IN ('RemoteJobObserved', 'RemoteJobGone')
                              AND replace(e.data::text, '\u0000', '\ufffd')::jsonb ->> 'name' = o.job
