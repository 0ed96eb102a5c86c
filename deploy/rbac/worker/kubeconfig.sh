#!/usr/bin/env bash
# Write to standard output a kubeconfig with which the service reaches one worker cluster.
#
# In: kubectl's current context (or KUBECONFIG and CONTEXT) of that worker, on which deploy/rbac/worker has been applied.
# Out: a file that holds everything inline (address, CA, token), as MultiKueue demands: no paths, no exec plugin, no password.
# DURATION (default 720h) is asked for; the API server may grant less. Before it ends, run this again and replace the Secret.
set -euo pipefail
namespace=${NAMESPACE:-kueue-system}
account=${SERVICE_ACCOUNT:-controlplane-worker}
kubectl=(kubectl)
if [[ -n ${CONTEXT:-} ]]; then kubectl+=(--context "$CONTEXT"); fi

read_config() { "${kubectl[@]}" config view --minify --flatten --raw --output "jsonpath={.clusters[0].cluster.$1}"; }

server=${SERVER:-$(read_config server)}
authority=$(read_config certificate-authority-data)
token=$("${kubectl[@]}" create token "$account" --namespace "$namespace" --duration "${DURATION:-720h}")

if [[ -z $server || -z $authority ]]; then
  echo 'The current context names no server, or no CA certificate for it.' >&2
  exit 1
fi
cat <<YAML
apiVersion: v1
kind: Config
current-context: worker
contexts: [{name: worker, context: {cluster: worker, user: worker}}]
clusters: [{name: worker, cluster: {server: "$server", certificate-authority-data: "$authority"}}]
users: [{name: worker, user: {token: "$token"}}]
YAML
