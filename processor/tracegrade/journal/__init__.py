"""The durable, ordered hand-over between the two roles, and the archive that replay reads."""
