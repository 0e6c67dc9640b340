"""Names of ready-made rules."""

BUILTIN = "builtin:"
"""The prefix of places of ready-made rules."""

ALL = "all"
DEFAULT = "default"

DEFAULT_RULES = frozenset(
    {
        "arguments-invalid-by-schema",
        "error-text-as-answer",
        "every-call-failed",
        "failed-call-repeated-unchanged",
        "placeholder-in-arguments",
        "same-call-repeated",
        "secret-in-arguments",
        "undeclared-tool-called",
    }
)
"""``builtin:default``, the rules in force when none is named: for mistakes of any agent with any tools."""
