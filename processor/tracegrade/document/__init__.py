"""YAML documents of ours, rules and settings: read with the place of every part, checked against a model."""
