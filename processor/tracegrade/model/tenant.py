"""Tenants: whose a span, a trace, a result, a run is."""

import re

DEFAULT_TENANT = "default"
"""Whose everything is of which nobody said whose it is."""

TENANT_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def checked_tenant(text: str) -> str:
    """`text`, if a tenant can have this name.

    Raises:
        ValueError: it is empty, too long, holds other characters than letters of ASCII, digits, '.', '_' and '-', or
            does not begin with a letter or digit.
    """
    if not re.fullmatch(TENANT_PATTERN, text):
        # As ASCII, so that letters of other alphabets which look like these are seen.
        raise ValueError(
            "expected a tenant of 1 to 64 letters (a to z, A to Z), digits, '.', '_' and '-', the first a letter or "
            f"digit, found {text!a}"
        )
    return text
