{{- /* The pod of a role. Takes root, role (all, receive, judge, web), ports, and volume: claim or emptyDir. */ -}}
{{- define "tracegrade.pod" -}}
{{- $values := .root.Values -}}
metadata:
  labels:
    {{- include "tracegrade.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
    {{- with $values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    {{- if and $values.configMap.create $values.enableConfigChecksumAnnotation }}
    checksum/config: {{ include "tracegrade.config" .root | sha256sum }}
    {{- end }}
    {{- with $values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "tracegrade.serviceAccountName" .root }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" "runtimeClassName" "imagePullSecrets" "initContainers" }}
  {{- with index $values $key }}
  {{ $key }}: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  securityContext: {{- toYaml $values.podSecurityContext | nindent 4 }}
  containers:
    - name: tracegrade
      image: {{ include "tracegrade.image" .root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args: {{ concat (list "serve" "--role" .role) $values.command.extraArgs | toJson }}
      {{- with $values.extraEnvs }}
      env: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.extraEnvsFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- range .ports }}
        - {name: {{ . }}, containerPort: {{ (index $values.ports .).containerPort }}}
        {{- end }}
      startupProbe: {{- merge (include "tracegrade.probe" (dict "root" .root "path" "/healthz") | fromYaml) $values.startupProbe | toYaml | nindent 8 }}
      livenessProbe: {{- merge (include "tracegrade.probe" (dict "root" .root "path" "/healthz") | fromYaml) $values.livenessProbe | toYaml | nindent 8 }}
      readinessProbe: {{- merge (include "tracegrade.probe" (dict "root" .root "path" "/readyz") | fromYaml) $values.readinessProbe | toYaml | nindent 8 }}
      securityContext: {{- toYaml $values.securityContext | nindent 8 }}
      resources: {{- toYaml $values.resources | nindent 8 }}
      volumeMounts:
        - {name: data, mountPath: /var/lib/tracegrade}
        - {name: tmp, mountPath: /tmp}
        - {name: settings, mountPath: /etc/tracegrade, readOnly: true}
        {{- if include "tracegrade.rulesName" .root }}
        - {name: rules, mountPath: /etc/tracegrade-rules, readOnly: true}
        {{- end }}
        {{- with $values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
    {{- with $values.extraContainers }}{{ toYaml . | nindent 4 }}{{ end }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: 1Gi}}
    {{- if eq .volume "emptyDir" }}
    - {name: data, emptyDir: {}}
    {{- end }}
    - {name: settings, configMap: {name: {{ include "tracegrade.configMapName" .root }}}}
    {{- with include "tracegrade.rulesName" .root }}
    - {name: rules, configMap: {name: {{ . }}}}
    {{- end }}
    {{- with $values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}
