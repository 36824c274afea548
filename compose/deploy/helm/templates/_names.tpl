{{/* Ends with a hash of its content, so that a changed key replaces the pods one by one. */}}
{{- define "waybill.config" -}}
waybill-{{ .Values.config | toYaml | sha256sum | trunc 10 }}
{{- end }}
{{- define "waybill.registry" -}}
{{ with .Values.image.registry }}{{ . }}/{{ end }}
{{- end }}
{{- define "waybill.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
