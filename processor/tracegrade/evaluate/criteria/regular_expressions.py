"""Regular expressions and globs, both as RE2: linear in the text, whatever the pattern.

Globs know ``*``, ``?``, ``[abc]``, ``[a-z]`` and ``[!abc]``; they are case-sensitive and cover the whole text. ``[*]``
is a literal star. Expressions are compiled for bytes: texts may hold lone surrogates, which have no UTF-8, so a text is
sought as ``text.encode("utf-8", "replace")``.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, STEPS_OF_A_SEARCH, WORK_LIMIT

# The largest program of one expression, bytes: far above any pattern a person writes, far below what hurts.
_MAX_PATTERN_BYTES = 1 << 20
_REMEMBERED = 4096


def is_glob(text: str) -> bool:
    """Whether `text` stands for more than itself."""
    return any(sign in text for sign in "*?[")


@lru_cache(maxsize=_REMEMBERED)
def glob_expression(glob: str) -> Any:
    """The RE2 expression of a glob, covering the whole text.

    Raises:
        ValueError: a ``[`` without its ``]``, or a range such as ``[z-a]``.
    """
    parts = []
    at = 0
    while at < len(glob):
        sign = glob[at]
        at += 1
        if sign == "*":
            parts.append(".*")
        elif sign == "?":
            parts.append(".")
        elif sign == "[":
            # A ']' that comes first is a member, as in the shell.
            end = glob.find("]", at + (2 if glob.startswith("!", at) else 1))
            if end < 0:
                raise ValueError(f"'[' without ']' in the glob {glob!r}; write '[[]' for a literal bracket")
            parts.append(_character_class(glob[at:end]))
            at = end + 1
        else:
            parts.append(re.escape(sign))
    return _compiled(r"(?s)\A" + "".join(parts) + r"\z", f"the glob {glob!r}")


def _character_class(inner: str) -> str:
    negated, members = ("^", inner[1:]) if inner.startswith("!") else ("", inner)
    escaped = re.sub(r"[][^\\]", r"\\\g<0>", members)
    return f"[{negated}{escaped}]"


def steps_of_search(expression: Any, characters: int) -> int:
    """The steps that a search by `expression` counts, in a text of so many bytes.

    RE2 looks at a byte once, whatever the expression, unless that takes too many states: then at every byte it makes a
    new one, or follows all parts of the expression, at 5 to 20 ns each (measured). Words and alternatives of words
    never take it there.
    """
    return STEPS_OF_A_SEARCH + characters * _weight(expression) // _WEIGHT_OF_A_STEP


def longest_searched(expressions: Sequence[Any]) -> int:
    """The bytes of the longest text in which all of `expressions` can be sought within `WORK_LIMIT` steps."""
    weight = sum(map(_weight, expressions))
    steps = max(0, WORK_LIMIT - STEPS_OF_A_SEARCH * len(expressions))
    return steps * _WEIGHT_OF_A_STEP // weight if weight else steps


_WEIGHT_OF_A_STEP = 16
_OF_WORDS = _WEIGHT_OF_A_STEP // CHARACTERS_READ_PER_STEP
# What, beside words and alternatives, leads to no more states than there are characters in the expression.
_PLAIN = re.compile(r"\(\?[ims]+\)|\(\?:|\\[^a-zA-Z0-9]|\\[bAz]|[^\\.*+?{\[]")


@lru_cache(maxsize=_REMEMBERED)
def _weight(expression: Any) -> int:
    pattern = expression.pattern.decode()
    return _OF_WORDS if not _PLAIN.sub("", pattern) else max(_OF_WORDS, expression.programsize)


_BEYOND_RE2 = re.compile(r"\(\?(<?[=!])|\\[1-9]|\(\?P=")


@lru_cache(maxsize=_REMEMBERED)
def regex_expression(pattern: str) -> Any:
    """The RE2 expression `pattern`, to be found anywhere in a text.

    Raises:
        ValueError: RE2 refuses it (also back-references and look-around, which no linear engine knows).
    """
    return _compiled(pattern, f"the regular expression {pattern!r}")


def _compiled(pattern: str, named: str) -> Any:
    import re2  # imported here, as settings and rules without patterns do not need it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_BYTES
    try:
        return re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        hint = "; it knows no look-ahead, look-behind or back-reference" if _BEYOND_RE2.search(pattern) else ""
        raise ValueError(f"RE2 refuses {named}: {text}{hint}") from None
