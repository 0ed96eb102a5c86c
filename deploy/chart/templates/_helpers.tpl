{{/* The prefix of every name: the release's, which is "controlplane" in all examples. */}}
{{- define "controlplane.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a component. In: root, component. Out: a mapping. */}}
{{- define "controlplane.selector" -}}
app.kubernetes.io/name: controlplane
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The labels of every object. In: root, and component where it has one. Out: a mapping. */}}
{{- define "controlplane.labels" -}}
{{- with .root.Values.commonLabels }}{{ toYaml . }}
{{ end -}}
app.kubernetes.io/name: controlplane
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The image, by its digest where one is given. */}}
{{- define "controlplane.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* "yes" where a controller runs. In: root, controller. */}}
{{- define "controlplane.hosts" -}}
{{- if and .root.Values.controlPlane.enabled (has .controller .root.Values.settings.run.controllers) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" where the admission webhook is served, and by which controllers. */}}
{{- define "controlplane.webhook" -}}
{{- if and .Values.controlPlane.enabled .Values.webhook.enabled -}}yes{{- end -}}
{{- end -}}

{{/* "yes" where Kueue's visibility API is served. */}}
{{- define "controlplane.visibility" -}}
{{- if and .Values.controlPlane.enabled .Values.visibility.enabled -}}yes{{- end -}}
{{- end -}}

{{/* "yes" where there are virtual Nodes, by the settings. */}}
{{- define "controlplane.virtualNodes" -}}
{{- if and (include "controlplane.hosts" (dict "root" . "controller" "candidates")) (eq (dig "candidates" "virtualNodes" "enabled" "no" .Values.settings) "yes") -}}yes{{- end -}}
{{- end -}}

{{/* "yes" where the kubelet API of virtual Nodes is served. */}}
{{- define "controlplane.kubelet" -}}
{{- if and (include "controlplane.virtualNodes" .) .Values.virtualNodes.certificate.existingSecret -}}yes{{- end -}}
{{- end -}}

{{/* The port of the pages where they are served to others, "" where they are not, or on loopback alone. */}}
{{- define "controlplane.web" -}}
{{- $web := dig "web" dict .Values.settings -}}
{{- $address := dig "address" "127.0.0.1" $web -}}
{{- if and .Values.controlPlane.enabled (eq (dig "serve" "no" $web) "yes") (not (hasPrefix "127." $address)) (ne $address "::1") -}}
{{- dig "port" 8081 $web -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the certificate of the webhook. */}}
{{- define "controlplane.webhook.secret" -}}
{{- .Values.webhook.certificate.existingSecret | default (printf "%s-admission" (include "controlplane.fullname" .)) -}}
{{- end -}}

{{/* The Secret with the certificate of the visibility API. */}}
{{- define "controlplane.visibility.secret" -}}
{{- .Values.visibility.certificate.existingSecret | default (printf "%s-visibility" (include "controlplane.fullname" .)) -}}
{{- end -}}

{{/* The Certificate of a server, and an Issuer where none is named. In: root, of (its Service, without the release's name), certificate, secret. */}}
{{- define "controlplane.certificate" -}}
{{- if .certificate.certManager.enabled }}
{{- $name := printf "%s-%s" (include "controlplane.fullname" .root) .of }}
{{- $namespace := .root.Release.Namespace }}
{{- $labels := include "controlplane.labels" (dict "root" .root "component" "service") }}
{{- $issuer := .certificate.certManager.issuerRef }}
{{- if not $issuer }}
{{- $issuer = dict "group" "cert-manager.io" "kind" "Issuer" "name" $name }}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels: {{- $labels | nindent 4 }}
spec:
  selfSigned: {}
{{- end }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels: {{- $labels | nindent 4 }}
spec:
  secretName: {{ .secret }}
  dnsNames:
    - {{ $name }}.{{ $namespace }}.svc
    - {{ $name }}.{{ $namespace }}.svc.cluster.local
  issuerRef: {{- toYaml $issuer | nindent 4 }}
  privateKey: {rotationPolicy: Always}
{{- end }}
{{- end -}}

{{/* The namespace of a CloudNativePG cluster that this release makes: one to which the service has no right. */}}
{{- define "controlplane.database.namespace" -}}
{{- .Values.database.cloudNativePG.namespace | default (printf "%s-database" (include "controlplane.fullname" .)) -}}
{{- end -}}

{{- define "controlplane.database.cluster" -}}
{{- printf "%s-database" (include "controlplane.fullname" .) -}}
{{- end -}}

{{/* The name of a Lease, as controlplane/app/claims.py has it: of what no object may be called, that of its hash. In: what it is of. */}}
{{- define "controlplane.lease" -}}
{{- $name := printf "controlplane.%s" . -}}
{{- if and (le (len $name) 253) (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" $name) -}}
{{- $name -}}
{{- else -}}
{{- printf "controlplane.%s" (sha256sum . | trunc 16) -}}
{{- end -}}
{{- end }}

{{/* The namespace of Tekton's flags: by the settings, else by the value of the release. */}}
{{- define "controlplane.tekton" -}}
{{- dig "coscheduling" "configNamespace" .Values.coscheduling.namespace .Values.settings -}}
{{- end -}}

{{/* The settings of the service: those of the values, and what the rest of the values says. Out: YAML. */}}
{{- define "controlplane.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- $tekton := include "controlplane.tekton" . -}}
{{- if ne $tekton "tekton-pipelines" -}}
{{- $_ := set $settings "coscheduling" (mergeOverwrite (dict "configNamespace" $tekton) (default dict $settings.coscheduling)) -}}
{{- end -}}
{{- if include "controlplane.webhook" . -}}
{{- $_ := set $settings "webhook" (mergeOverwrite (dict "certificate" "/etc/controlplane-admission/tls.crt" "key" "/etc/controlplane-admission/tls.key") (default dict $settings.webhook)) -}}
{{- end -}}
{{- if include "controlplane.visibility" . -}}
{{- $quota := default dict $settings.quota -}}
{{- $files := dict "certificate" "/etc/controlplane-visibility/tls.crt" "key" "/etc/controlplane-visibility/tls.key" -}}
{{- $_ := set $quota "visibility" (mergeOverwrite $files (default dict $quota.visibility)) -}}
{{- $_ := set $settings "quota" $quota -}}
{{- end -}}
{{- if include "controlplane.kubelet" . -}}
{{- $files := dict "certificate" "/etc/controlplane-kubelet/tls.crt" "key" "/etc/controlplane-kubelet/tls.key" -}}
{{- $_ := set $settings.candidates "virtualNodes" (mergeOverwrite $files (default dict $settings.candidates.virtualNodes)) -}}
{{- end -}}
{{ toYaml $settings }}
{{- end -}}

{{/*
The documents of one of the project's manifests, which `make chart` copies into files/. In: root, file; and, where they
matter, component (for labels), namespace (of the manifest, which becomes the release's), kinds (the job kinds whose rules
are kept), resources (those that are kept of roles). Names begin with the release's in the place of "controlplane".
*/}}
{{- define "controlplane.manifest" -}}
{{- $root := .root -}}
{{- $given := . -}}
{{- $name := include "controlplane.fullname" $root -}}
{{- $text := $root.Files.Get (printf "files/%s" .file) | required (printf "files/%s is missing: run make chart" .file) -}}
{{- $text = $text | replace "kueue-system" $root.Release.Namespace | replace "controlplane-system" $root.Release.Namespace -}}
{{- range $document := splitList "\n---\n" $text }}
{{- $object := fromYaml (include "controlplane.renamed" (dict "text" $document "name" $name)) }}
{{- if has ($object.metadata.name | trimPrefix (printf "%s-" $name)) (default (list ($object.metadata.name | trimPrefix (printf "%s-" $name))) $given.names) }}
{{- if hasKey $given "kinds" }}
{{- include "controlplane.keep" (dict "object" $object "kinds" $given.kinds) }}
{{- end }}
{{- if hasKey $given "resources" }}
{{- include "controlplane.only" (dict "object" $object "resources" $given.resources) }}
{{- end }}
{{- $labels := fromYaml (include "controlplane.labels" (dict "root" $root "component" $given.component)) }}
{{- $_ := set $object.metadata "labels" (mergeOverwrite (default dict $object.metadata.labels) $labels) }}
{{- with $given.namespace }}
{{- $_ := set $object.metadata "namespace" . }}
{{- end }}
{{- with $given.annotations }}
{{- $_ := set $object.metadata "annotations" (mergeOverwrite (default dict $object.metadata.annotations) .) }}
{{- end }}
{{- if and (hasKey $object.metadata "namespace") (not $object.metadata.namespace) }}
{{- $_ := set $object.metadata "namespace" $root.Release.Namespace }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end -}}

{{/* A document whose names begin with the release's. In: text, name. Out: text. */}}
{{- define "controlplane.renamed" -}}
{{- regexReplaceAll `(?m)^(\s*(?:- )?(?:name|policyName|serviceAccountName): (?:multikueue-)?)controlplane(-[-a-z]+)?$` .text (printf "${1}%s${2}" .name) -}}
{{- end -}}

{{/* Keep those rules of a role for jobs, and of a webhook, that are about some kinds of job. In: object (changed), kinds. */}}
{{- define "controlplane.keep" -}}
{{- $wanted := dict -}}
{{- $pods := false -}}
{{- range .kinds }}
{{- $group := "" }}
{{- $kind := . }}
{{- if contains "/" . }}
{{- $group = index (splitList "/" .) 0 }}
{{- $kind = index (splitList "/" .) 1 }}
{{- end }}
{{- if or (eq . "deployment") (eq . "statefulset") }}{{ $group = "apps" }}{{ end }}
{{- if or (eq $group "apps") (eq $kind "leaderworkerset") }}{{ $pods = true }}{{ end }}
{{- $_ := set $wanted (printf "%s/%ss" $group $kind) true }}
{{- if eq $kind "trainjob" }}
{{- $_ := set $wanted (printf "%s/trainingruntimes" $group) true }}
{{- $_ := set $wanted (printf "%s/clustertrainingruntimes" $group) true }}
{{- end }}
{{- end }}
{{- if and (hasKey .object "rules") (hasSuffix "-jobs" .object.metadata.name) }}
{{- $_ := set .object "rules" (fromYamlArray (include "controlplane.kept" (dict "rules" .object.rules "wanted" $wanted))) }}
{{- end }}
{{- if hasKey .object "webhooks" }}
{{- /* The pods of these kinds wait, whether pods by themselves are dispatched or not. */}}
{{- if $pods }}{{ $_ := set $wanted "/pods" true }}{{ end }}
{{- $webhooks := list }}
{{- range .object.webhooks }}
{{- $_ := set . "rules" (fromYamlArray (include "controlplane.kept" (dict "rules" .rules "wanted" $wanted))) }}
{{- if .rules }}{{ $webhooks = append $webhooks . }}{{ end }}
{{- end }}
{{- $_ := set .object "webhooks" $webhooks }}
{{- end }}
{{- end -}}

{{/* Keep some resources of a role. In: object (changed), resources. */}}
{{- define "controlplane.only" -}}
{{- $wanted := .resources -}}
{{- $rules := list }}
{{- range (default list .object.rules) }}
{{- $kept := list }}
{{- range .resources }}{{ if has . $wanted }}{{ $kept = append $kept . }}{{ end }}{{ end }}
{{- $_ := set . "resources" $kept }}
{{- if $kept }}{{ $rules = append $rules . }}{{ end }}
{{- end }}
{{- if hasKey .object "rules" }}{{ $_ := set .object "rules" $rules }}{{ end }}
{{- end -}}

{{/* The rules whose resource is wanted. In: rules, wanted (group/plural). Out: YAML. */}}
{{- define "controlplane.kept" -}}
{{- $kept := list -}}
{{- range .rules }}
{{- $key := printf "%s/%s" (index .apiGroups 0) (index (splitList "/" (index .resources 0)) 0) }}
{{- if hasKey $.wanted $key }}{{ $kept = append $kept . }}{{ end }}
{{- end }}
{{- toYaml $kept }}
{{- end -}}
