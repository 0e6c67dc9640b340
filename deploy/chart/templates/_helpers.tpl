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
