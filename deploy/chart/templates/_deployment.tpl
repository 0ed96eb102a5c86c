{{/*
The Deployment of a component, made from that of kustomize. In: root, file, component, name, values (replicas, resources,
… of values.yaml), settings (the text of settings.yaml), configmap. Out: YAML.
*/}}
{{- define "controlplane.deployment" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $deployment := fromYaml ($root.Files.Get (printf "files/%s" .file)) -}}
{{- $selector := fromYaml (include "controlplane.selector" .) -}}
{{- $labels := fromYaml (include "controlplane.labels" .) -}}
{{- $pod := $deployment.spec.template -}}
{{- $spec := $pod.spec -}}
{{- $container := index $spec.containers 0 -}}
{{- $_ := set $deployment "metadata" (dict "name" .name "namespace" $root.Release.Namespace "labels" $labels) -}}
{{- $_ := set $deployment.spec "replicas" (int $values.replicas) -}}
{{- $_ := set $deployment.spec "selector" (dict "matchLabels" $selector) -}}
{{- $annotations := merge (dict "checksum/settings" (sha256sum .settings)) (default dict $values.podAnnotations) -}}
{{- $_ := set $pod "metadata" (dict "labels" (merge (deepCopy $selector) (default dict $values.podLabels)) "annotations" $annotations) -}}
{{- $_ := set $spec "serviceAccountName" .name -}}
{{- if $values.topologySpreadConstraints -}}
{{- $_ := set $spec "topologySpreadConstraints" $values.topologySpreadConstraints -}}
{{- else -}}
{{- range $spec.topologySpreadConstraints -}}
{{- $_ := set .labelSelector "matchLabels" $selector -}}
{{- end -}}
{{- end -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "priorityClassName" -}}
{{- with index $values $field -}}{{- $_ := set $spec $field . -}}{{- end -}}
{{- end -}}
{{- with $root.Values.imagePullSecrets -}}{{- $_ := set $spec "imagePullSecrets" . -}}{{- end -}}
{{- $_ := set $container "image" (include "controlplane.image" $root) -}}
{{- $_ := set $container "imagePullPolicy" $root.Values.image.pullPolicy -}}
{{- $_ := set $container "resources" $values.resources -}}
{{- $environment := list -}}
{{- range $container.env -}}
{{- if ne .name "CONTROLPLANE_DATABASE_URL" -}}{{- $environment = append $environment . -}}{{- end -}}
{{- end -}}
{{- $environment = concat $environment (fromYamlArray (include "controlplane.database.env" $root)) (default list $values.extraEnv) -}}
{{- $_ := set $container "env" $environment -}}
{{- range $volume := $spec.volumes -}}
{{- if eq $volume.name "settings" -}}{{- $_ := set $volume.configMap "name" $.configmap -}}{{- end -}}
{{- if eq $volume.name "database-ca" -}}{{- $_ := set $volume "configMap" (dict "name" $root.Values.database.certificateAuthority.configMap "optional" true) -}}{{- end -}}
{{- end -}}
{{- $_ := set $spec "volumes" (concat $spec.volumes (default list .volumes) (default list $values.extraVolumes)) -}}
{{- $_ := set $container "volumeMounts" (concat $container.volumeMounts (default list .mounts) (default list $values.extraVolumeMounts)) -}}
{{- $_ := set $container "ports" (concat $container.ports (default list .ports)) -}}
{{ toYaml $deployment }}
{{- end -}}

{{/* The database's URL: out of a Secret, or out of the password that CloudNativePG gives to the service's role. */}}
{{- define "controlplane.database.env" -}}
{{- if .Values.database.cloudNativePG.enabled }}
- name: DATABASE_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "controlplane.database.cluster" . }}-service
      key: password
- name: CONTROLPLANE_DATABASE_URL
  value: postgresql://controlplane_service:$(DATABASE_PASSWORD)@{{ include "controlplane.database.cluster" . }}-rw.{{ include "controlplane.database.namespace" . }}.svc:5432/controlplane?sslmode={{ if .Values.database.cloudNativePG.verify }}verify-full&sslrootcert=/etc/controlplane-database/ca.crt{{ else }}require{{ end }}
{{- else }}
- name: CONTROLPLANE_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.database.secret.name }}
      key: {{ .Values.database.secret.key }}
{{- end }}
{{- end -}}
