{{/* A manifest with a selector of pods, which becomes that of the component. In: root, file, component. Out: YAML. */}}
{{- define "controlplane.selecting" -}}
{{- $object := fromYaml (include "controlplane.manifest" (merge (dict "namespace" .root.Release.Namespace) .) | trimPrefix "---\n") -}}
{{- $selector := fromYaml (include "controlplane.selector" .) -}}
{{- if eq $object.kind "Service" -}}
{{- $_ := set $object.spec "selector" $selector -}}
{{- else -}}
{{- $_ := set $object.spec.selector "matchLabels" $selector -}}
{{- end -}}
---
{{ toYaml $object }}
{{- end -}}
