"""Spans of deleted traces that arrive later: not judged, and erased from the journal from time to time on request."""

from tracegrade.deletion.request import Choice, Deletions

ASK_EVERY_S = 30.0


class LateSpansOfDeleted:
    """Collects the deleted traces of which something came later, and requests its deletion."""

    def __init__(self, deletions: Deletions) -> None:
        self.traces: set[tuple[str, bytes]] = set()  # tenant and trace id; filled where they are met
        self._deletions = deletions
        self._due_s = 0.0

    def ask(self, now_s: float) -> None:
        """Ask for what came since the last time, at most every half minute: each time the whole journal is read.

        Args:
            now_s: of any clock that goes on.

        Raises:
            OSError: the disk refused; nothing is forgotten.
        """
        if self.traces and now_s >= self._due_s:
            self._due_s = now_s + ASK_EVERY_S
            for tenant in sorted({tenant for tenant, _ in self.traces}):
                found = {key for key in self.traces if key[0] == tenant}
                self._deletions.request(Choice(tenant=tenant), frozenset(id_ for _, id_ in found), late=True)
                self.traces -= found
