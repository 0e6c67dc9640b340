{{- define "tracegrade.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "tracegrade.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "tracegrade.name" .) .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name (include "tracegrade.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tracegrade.selector" -}}
app.kubernetes.io/name: {{ include "tracegrade.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tracegrade.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "tracegrade.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "tracegrade.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "tracegrade.labels" .root | nindent 2 }}
{{- end }}

{{- define "tracegrade.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{- define "tracegrade.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "tracegrade.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "tracegrade.configMapName" -}}
{{- if .Values.configMap.create }}{{ include "tracegrade.fullname" . }}
{{- else }}{{ required "configMap.existingName: name the ConfigMap that has config.yaml, or set configMap.create" .Values.configMap.existingName }}
{{- end }}
{{- end }}

{{- define "tracegrade.rulesName" -}}
{{- if .Values.rules.existingConfigMap }}{{ .Values.rules.existingConfigMap }}
{{- else if .Values.rules.files }}{{ include "tracegrade.fullname" . }}-rules
{{- end }}
{{- end }}

{{- /* The settings: the chart's, and over them the values'. */ -}}
{{- define "tracegrade.config" -}}
{{- $listen := dict "insecure" true }}
{{- $grpc := merge (dict "endpoint" (printf "0.0.0.0:%v" (index .Values.ports "otlp-grpc").containerPort)) $listen }}
{{- $http := merge (dict "endpoint" (printf "0.0.0.0:%v" (index .Values.ports "otlp-http").containerPort)) $listen }}
{{- $given := dict "data_dir" "/var/lib/tracegrade"
      "receivers" (dict "otlp" (dict "protocols" (dict "grpc" $grpc "http" $http)))
      "web" (merge (dict "endpoint" (printf "0.0.0.0:%v" .Values.ports.web.containerPort)) $listen)
      "telemetry" (merge (dict "endpoint" (printf "0.0.0.0:%v" .Values.ports.telemetry.containerPort)) $listen) }}
{{- if include "tracegrade.rulesName" . }}
{{- $_ := set $given "rules" (dict "paths" (list "/etc/tracegrade-rules")) }}
{{- end }}
{{- $config := mergeOverwrite $given (deepCopy .Values.config) }}
{{- if ne .Values.mode "standalone" }}
{{- $_ := required (printf "config.store.url: mode %s shares one PostgreSQL; give its URL" .Values.mode) (dig "store" "url" "" $config) }}
{{- end }}
{{- if eq .Values.mode "kafka" }}
{{- $_ := required "config.journal.kafka: mode kafka needs the brokers and the topics" (dig "journal" "kafka" "" $config) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* What a probe asks. The kubelet has no token: where one is needed, the program asks, and life is an open port. Takes root, path. */ -}}
{{- define "tracegrade.probe" -}}
{{- $telemetry := default dict .root.Values.config.telemetry }}
{{- $tls := default dict $telemetry.tls }}
{{- if $tls.client_ca_file }}
{{- fail "config.telemetry.tls.client_ca_file: probes have no certificate to show; expected config.telemetry.auth in its place" }}
{{- end }}
{{- if not (kindIs "map" $telemetry.auth) }}
httpGet: {path: {{ .path }}, port: telemetry{{ if $tls }}, scheme: HTTPS{{ end }}}
{{- else if not (or $telemetry.auth.tokens $telemetry.auth.token_file) }}
{{- fail "config.telemetry.auth: the readiness probe shows a token of the settings; expected tokens or token_file" }}
{{- else if eq .path "/readyz" }}
exec: {command: [tracegrade, healthcheck]}
{{- else }}
tcpSocket: {port: telemetry}
{{- end }}
{{- end }}
