"""Texts that stand under one name, and may be one: parts of a message, items of a list."""

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence

_NUMBERS = re.compile(r"\d+")  # llm.input_messages.0.message.content
_REST_OF_DOMAIN = re.compile(r"[\w\-]{0,63}\.\w")
_ROLE = re.compile(r"(?:.*\.)?role", re.IGNORECASE | re.DOTALL)


def of_one_name(texts: Sequence[str], keys: Sequence[str], wholes: Collection[int]) -> list[list[int]]:
    """The numbers of texts that follow each other under one name, and may be one text.

    Apart are those of messages with different roles, and what stands behind one of `wholes`: texts that end with a
    whole address, which goes on at most with the rest of a domain.
    """
    by_name: dict[str, list[int]] = {}
    roles = []
    for number, key in enumerate(keys):
        if key:
            by_name.setdefault(_NUMBERS.sub("0", key), []).append(number)
            if _ROLE.fullmatch(key):
                roles.append(number)
    found = []
    for numbers in by_name.values():
        run = numbers[:1]
        for number in numbers[1:]:
            is_behind_whole = run[-1] in wholes and not _REST_OF_DOMAIN.match(texts[number])
            if is_behind_whole or _is_said_by_another(texts, roles, run[-1], number):
                found.append(run)
                run = []
            run.append(number)
        found.append(run)
    return [run for run in found if len(run) > 1]


def _is_said_by_another(texts: Sequence[str], roles: Sequence[int], one: int, other: int) -> bool:
    """Whether two texts are of messages with different roles, whether a role stands before its text or behind it."""
    begin, end = bisect_right(roles, one), bisect_right(roles, other)
    if begin == end or not (begin or end < len(roles)):
        return False
    differs_before = not begin or texts[roles[begin - 1]] != texts[roles[end - 1]]
    differs_behind = end == len(roles) or texts[roles[begin]] != texts[roles[end]]
    return differs_before and differs_behind
