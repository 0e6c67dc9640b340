"""The protocol, used by both ends."""
