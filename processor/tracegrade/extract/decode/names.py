"""Names of tools and agents inside the names that senders give to spans."""

import re

# Python frameworks name a span after the method that they instrument.
_METHOD_SUFFIXES = (".__call__", ".acall")
_QUOTED = re.compile(r"[a-z][a-z ]*: '(.+)'")


def without_method(name: str) -> str:
    """A span's name without the method that was called: ``reserve`` of ``reserve.__call__``."""
    for suffix in _METHOD_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def quoted(name: str) -> str:
    """The name between quotes after a word for the kind: ``reserve`` of ``tool: 'reserve'``; any other as it is."""
    found = _QUOTED.fullmatch(name)
    return found[1] if found is not None else name
