"""What follows from the keys of a span's attributes alone, worked out once for each set: senders repeat a few sets."""

from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

# A sender that invents keys without end must not grow a memo for ever: it takes at most some 10 MB.
_MAX_LEARNT_SETS = 1024
_MAX_LEARNT_CHARS = 8192
# As many attributes as SDKs allow a span by default, and what is asked of them: larger sets, of flattened messages, do
# not repeat.
_MAX_LEARNT_KEYS = 128 + 2


class ByKeys(dict[tuple[str, ...], Found]):
    """What a function gives for tuples of keys; remembered for those that are likely to come again."""

    def __init__(self, work: Callable[[tuple[str, ...]], Found]) -> None:
        self._work = work

    def __missing__(self, keys: tuple[str, ...]) -> Found:
        found = self._work(keys)
        if len(keys) <= _MAX_LEARNT_KEYS and sum(map(len, keys)) <= _MAX_LEARNT_CHARS:
            if len(self) >= _MAX_LEARNT_SETS:
                self.clear()
            self[keys] = found
        return found
