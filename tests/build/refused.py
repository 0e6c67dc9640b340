"""What is refused, and for which reason."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tracegrade.journal.errors import JournalRefused
from tracegrade.model.errors import NotTaken


@contextmanager
def refused(reason: str, match: str | None = None) -> Iterator[None]:
    """The journal refuses for this reason; the sender may retry."""
    with pytest.raises(JournalRefused, match=match) as caught:
        yield
    assert caught.value.reason == reason


@contextmanager
def not_taken(reason: str, match: str | None = None) -> Iterator[None]:
    """Something is not taken for this reason, and may not be sent again."""
    with pytest.raises(NotTaken, match=match) as caught:
        yield
    assert caught.value.reason == reason
