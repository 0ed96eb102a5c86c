-- What began the absence in which a phase p begins: the first loss after the cluster was last connected.
SELECT true AS lost, e.reason, coalesce(e.data ->> 'message', '') AS message
FROM controlplane.events e
WHERE e.log = p.log AND e.stream = 'cluster/' || p.cluster AND e.position < p.position
  AND e.type IN ('ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
  AND e.position > coalesce((
      SELECT c.position FROM controlplane.events c
      WHERE c.log = p.log AND c.stream = 'cluster/' || p.cluster AND c.position < p.position
        AND c.type = 'ClusterConnected' ORDER BY c.position DESC LIMIT 1), 0)
ORDER BY e.position LIMIT 1
