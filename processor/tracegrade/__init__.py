"""TraceGrade: judges the tool calls of AI agents from their OpenTelemetry traces."""
