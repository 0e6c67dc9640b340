"""Splits long lists of ids into parts that fit into one query."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

_MAX_IDS_A_QUERY = 500

_Item = TypeVar("_Item")


def in_parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """`items` in their order, some at a time."""
    for start in range(0, len(items), _MAX_IDS_A_QUERY):
        yield items[start : start + _MAX_IDS_A_QUERY]
