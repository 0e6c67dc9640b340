"""What is expected, compiled: matchers, field types, data flow."""
