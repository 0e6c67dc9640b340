"""Who makes a request."""

from dataclasses import dataclass

from tracegrade.access.rights import EVERYTHING, Right


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known of who makes a request.

    ``tenant`` is whose data it may see and send; None: every tenant's, as an operator's token. ``name`` is what the
    access log shows: never a secret, "" for callers of whom nothing is known. ``owner`` stands for the token without
    giving it away, and stays the same when its secret changes; "" without a token.
    """

    rights: frozenset[Right]
    tenant: str | None = None
    name: str = ""
    owner: str = ""

    def may(self, right: Right) -> bool:
        """Whether the caller has `right`."""
        return right in self.rights


KNOWN = Caller(EVERYTHING)
"""Who comes without a token where none is asked for: from this machine, or with a certificate."""

UNKNOWN = Caller(frozenset({"read", "read-values"}))
"""Who comes without a token from other machines, where the settings allow that."""
