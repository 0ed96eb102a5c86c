SELECT t.* FROM (
    -- a new list shows the new object before it says that the one before is gone: that is no end of the new one
    SELECT o.*, substr(max(lpad(o.position::text, 20, '0') || (o.d ->> 'uid')) FILTER (WHERE o.type LIKE '%Observed') OVER w, 21) AS uid_now,
           o.type = 'WorkloadObserved' AND coalesce(lag(o.type) OVER w = 'WorkloadObserved' AND lag(o.d ->> 'uid') OVER w <> o.d ->> 'uid', false)
               AS replaces
    FROM (
        SELECT e.*, CASE WHEN e.type IN ('WorkloadObserved', 'WorkloadGone') THEN ''
                         WHEN e.type IN ('CloneObserved', 'CloneGone') THEN 'Clone/' || e.cluster
                         WHEN e.type IN ('RemoteJobObserved', 'RemoteJobGone') THEN concat_ws('/', 'Job', e.cluster, e.d ->> 'name') END AS object
        FROM (
            @EVENTS@ OFFSET 0
        ) e
        OFFSET 0
    ) o
    WINDOW w AS (PARTITION BY o.object ORDER BY o.position)
) t
WHERE t.type NOT IN ('WorkloadGone', 'CloneGone', 'RemoteJobGone') OR coalesce(t.uid_now = t.d ->> 'uid', true)
OFFSET 0