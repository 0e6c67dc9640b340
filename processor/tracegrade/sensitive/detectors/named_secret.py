"""Secrets without a form of their own, known by what they are called: passwords, API keys, tokens of access."""

import re
from collections.abc import Iterator

from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.likeness import is_likeness

_NAMES = (
    r"pass(?:word|wd|phrase)|pwd|secret|(?:client|app|shared|signing)[_\- ]?secret|secret[_\- ]?(?:access[_\- ]?)?key"
    r"|api[_\- ]?(?:key|secret|token)|private[_\- ]?key|(?:access|auth|refresh|session|bearer|id)[_\- ]?token"
    r"|credentials?|(?:proxy[_\- ])?authorization|x[_\- ]?api[_\- ]?key|account[_\- ]?key|connection[_\- ]?string"
)
_NAMED = re.compile(rf"(?:.*[_\-. ])?(?:{_NAMES})", re.IGNORECASE | re.DOTALL)
_OF_WORDS = re.compile(r"passphrase$", re.IGNORECASE)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Variables that are called so in commands: PGPASSWORD=..., DB_PASS=...
_VARIABLES = r"(?-i:PGPASSWORD|_PASS)"
# In a text: password=..., "api_key": "...", Authorization: Bearer ... After a colon may come prose: there, a secret is
# in quotes, has a scheme before it, or has a digit in it. So has one behind an option: --password ...
_WRITTEN = re.compile(
    rf"(?:(?:(?<![A-Za-z0-9])(?:{_NAMES})|{_VARIABLES})\\*['\"]?\s{{0,3}}(?:=\s{{0,3}}\\*['\"]?|:\s{{0,3}}(?:(?:Bearer|Basic|Token)\s+"
    rf"|\\*['\"]|(?=\S*\d)))|--(?:{_NAMES})\s{{1,3}}\\*['\"]?(?=[^\s\d]{{0,40}}\d))([^\s'\"&,;<>{{}}()\[\]\\]{{6,}})",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
# What stands in place of a secret: a stand-in of ours, a mask, a variable, a word that says that there is none.
_NO_SECRET = re.compile(
    r"redacted-\d+|user\d+@example\.com|[*x.•#_\-]+|[\[<(].*[\])>]|\$.*|%.*%|\{\{.*|(?:null|none|true|false|undefined|string|required|"
    r"redacted|hidden|masked|filtered|secret|password|optional|unknown)",
    re.IGNORECASE | re.DOTALL,
)
_SHORTEST = 4
_LONGEST = 4096
_NAME_LENGTH = 128
_OF_TOKENS = 16


def _find(text: str, key: str) -> Iterator[Part]:
    if key and _is_named(key):
        scheme = _SCHEME.match(text)
        start = scheme.end() if scheme else 0
        value = text[start:]
        # A sentence is what somebody says of a secret, not the secret; but for what is made of words.
        is_one = len(value.split()) == 1 or _OF_WORDS.search(key) is not None
        if _SHORTEST <= len(value) <= _LONGEST and is_one and _is_secret(value):
            yield start, len(text)
        return
    if "=" in text or ":" in text or "--" in text:
        for match in _WRITTEN.finditer(text):
            if _is_secret(match.group(1)):
                yield match.span(1)


def _is_secret(value: str) -> bool:
    """Whether it is none of the words and masks above, nor what another detector put in place of a token."""
    if len(value) >= _OF_TOKENS and is_likeness(value[len(value) // 2 :]):
        return False
    return _NO_SECRET.fullmatch(value.strip()) is None


def _is_named(key: str) -> bool:
    if len(key) > _NAME_LENGTH:
        return False
    return _NAMED.fullmatch(_CAMEL_CASE.sub("_", key)) is not None


DETECTOR = Detector(
    "named_secret",
    _find,
    lambda value, number: f"redacted-{number}",
    signs=(
        rf"(?i:(?:{_NAMES})(?:\\*['\"]?\s{{0,3}}[:=]|\s{{1,3}}\\*['\"]?[^\s\d]{{0,40}}\d))",
        r"(?:PASS\\*['\"]?\s{0,3}=)",
    ),
    key_signs=(rf"(?i:(?:{_NAMES})(?:\\*[\"']?\s*:|\x12))",),
    is_named=_is_named,
    joins=False,
)
