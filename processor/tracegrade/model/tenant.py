"""Tenants: whose a span, a trace, a result, a run is."""

import re

DEFAULT_TENANT = "default"
"""Whose everything is of which nobody said whose it is."""

TENANT_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def checked_tenant(text: str) -> str:
    """`text`, if a tenant can have this name.

    Raises:
        ValueError: it holds other characters than letters, digits, '.', '_' and '-', or begins with none of the first.
    """
    if not re.fullmatch(TENANT_PATTERN, text):
        raise ValueError(f"expected a tenant of 1 to 64 letters, digits, '.', '_' and '-', found {text!r}")
    return text
