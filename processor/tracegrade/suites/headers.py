"""Headers that people send to an agent or a server beside our own, and what of them is shown nowhere."""

import re
from collections.abc import Mapping

from tracegrade.model.json_value import JsonValue

_SHORTEST_SECRET = 8  # a shorter one is a word that texts may hold by chance
_MASK = "**********"

HEADER_NAME = re.compile("[0-9A-Za-z_.-]+")
OWN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "mcp-method",
        "mcp-protocol-version",
        "mcp-session-id",
        "transfer-encoding",
        "user-agent",
    }
)


def is_sendable(value: str) -> bool:
    """Whether `value` can be that of a header."""
    return bool(value) and value.isascii() and value.isprintable()


class SentHeaders:
    """Headers whose values a server may repeat in what it answers."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        """Their values count whole, and so does the word after a scheme such as Bearer."""
        found = {secret for value in headers.values() for secret in (value, value.rpartition(" ")[2])}
        self._secrets = sorted((one for one in found if len(one) >= _SHORTEST_SECRET), key=len, reverse=True)

    def masked_in(self, text: str) -> str:
        """`text` with a mask wherever it repeats a value."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text

    def masked(self, value: JsonValue) -> JsonValue:
        """`value` with every text masked."""
        if isinstance(value, str):
            return self.masked_in(value)
        if isinstance(value, list):
            return [self.masked(item) for item in value]
        if isinstance(value, dict):
            return {self.masked_in(name): self.masked(item) for name, item in value.items()}
        return value
