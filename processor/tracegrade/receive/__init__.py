"""OTLP in: gRPC and HTTP."""
