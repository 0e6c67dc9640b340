"""What was made of the same history before: checks come every few seconds, and history changes once an hour."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from tracegrade.store.history import Bin

_T = TypeVar("_T")

_MOST = 10_000
_made: dict[int, Any] = {}


def remembered(about: Hashable, bins: Sequence[Bin], make: Callable[[], _T]) -> _T:
    """What `make` makes of `bins`, or made of equal ones; `about` says what that is, and on what else it depends."""
    key = hash((about, tuple(bins)))
    if key not in _made:
        if len(_made) >= _MOST:
            _made.clear()
        _made[key] = make()
    found: _T = _made[key]
    return found
