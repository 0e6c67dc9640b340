"""JSON within a text: its texts, keys and numbers, each with its path, and the text again with some of them replaced.

Paths name keys as they are after that.

What is not replaced stays byte by byte: spaces, how numbers are written, keys that come twice.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tracegrade.sensitive.json_inside import json_inside

Path: TypeAlias = tuple[str | int, ...]
Leaf: TypeAlias = Literal["text", "key", "number"]
Replace: TypeAlias = Callable[[str, Leaf, Path], str]
"""Called with a text, a key or a number as it is written, and its path; gives what is to stand there."""

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++')
# A line of a stream: a document, or an event with one.
_LINE = re.compile(r"^[ \t]*(?:data:[ \t]*)?(?P<json>[{\[].*[}\]])[ \t\r]*$", re.MULTILINE)


def is_json(text: str) -> bool:
    """Whether `text` is a JSON object, list or text."""
    return json_inside(text) is not None


def documents(text: str) -> list[tuple[int, int]]:
    """Where JSON objects and lists stand in a text of several lines with one each, as of a stream; else empty."""
    if "\n" not in text:
        return []
    found = [match.span("json") for match in _LINE.finditer(text) if is_json(match["json"])]
    return found if len(found) > 1 else []


@dataclass(slots=True)
class _Level:
    """An object or list that is open: the key or number of its member, and whether a key comes next."""

    is_object: bool
    at: str | int
    expects_key: bool


def rewritten(text: str, replace: Replace) -> str:
    """`text`, which `is_json`, with what `replace` gives in place of its texts, keys and numbers."""
    levels: list[_Level] = []
    pieces: list[str] = []
    end = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        pieces.append(text[end : match.start()])
        end = match.end()
        pieces.append(_rewritten_token(token, levels, replace))
    return "".join(pieces) + text[end:]


def _rewritten_token(token: str, levels: list[_Level], replace: Replace) -> str:
    level = levels[-1] if levels else None
    if token in "{[":
        levels.append(_Level(token == "{", "" if token == "{" else 0, token == "{"))
    elif token in "}]":
        levels.pop()
    elif token == "," and level is not None:
        level.expects_key = level.is_object
        if isinstance(level.at, int):
            level.at += 1
    elif token.startswith('"'):
        value = json.loads(token)
        path = tuple(level.at for level in levels)
        if level is not None and level.expects_key:
            level.at, level.expects_key = replace(value, "key", path[:-1]), False
            return _quoted(token, value, str(level.at))
        return _quoted(token, value, replace(value, "text", path))
    elif token[0] in "-0123456789":
        return replace(token, "number", tuple(level.at for level in levels))
    return token


def _quoted(token: str, value: str, other: str) -> str:
    return token if other == value else json.dumps(other, ensure_ascii=token.isascii())
