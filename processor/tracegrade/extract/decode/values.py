"""Decoding what frameworks write into attributes: JSON, JSON in JSON, Python literals, cut-off and masked texts.

Everything here is total: any input gives a value and a status, in time linear in its length.
"""

import ast
import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import orjson

from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ValueStatus

# JSON inside JSON inside JSON: MLflow quotes, Vercel stringifies, tool content sits in message content.
MAX_ENCODINGS = 3
# orjson writes at most 254 levels; deeper values could be read but never stored.
MAX_NESTING = 100
# Python's own parser builds a tree many times the size of its text.
MAX_LITERAL_CHARS = 100_000
# From here on orjson reads integers as floats.
_INEXACT = 2.0**63
# Python refuses to print integers longer than this (sys.int_info.default_max_str_digits).
MAX_DIGITS = 4300

# What senders write where they have, or give, no value.
_ABSENT = frozenset({"<not specified>", "<not serializable>", "None", "N/A"})
_REDACTED = frozenset({"[redacted]", "<redacted>", "__redacted__"})  # in any case
_REDACTED_AS = "[redacted:"  # and what was found, as `redact.stand_in` writes it
_NO_CALL_ID = _ABSENT | {"unknown", "null", ""}
_LONGEST_SENTINEL = max(map(len, _ABSENT | _REDACTED))

# Lengths at which senders cut texts: OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT settings and hard-coded bounds seen.
_ROUND_LIMITS = frozenset(
    {128, 250, 256, 500, 512, 1000, 1024, 2000, 2048, 4000, 4095, 4096, 8000, 8191, 8192, 10000, 10240, 16000, 16384}
    | {20000, 32000, 32766, 32767, 32768, 50000, 64000, 65535, 65536, 100000, 131072, 262144}
)

# Numbers are not among them: 1_000 is a number only to Python, and a name to others.
_LITERAL_START = ("{", "[", "(", "'", '"', "b'", 'b"')
# Beginnings that no JSON has, however loose.
_PYTHON_START = ("{'", "['", "[{'", "(", "'", "b'", 'b"')
_PYTHON_WORDS = (("True", "true"), ("False", "false"), ("None", "null"))
_PLAIN_KINDS = frozenset({str, int, bool, type(None)})
_LITERAL_WORDS: dict[str, JsonValue] = {"True": True, "False": False}
_UNCLOSED = ("was never closed", "unterminated", "unexpected EOF")
_JSON_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_SURROGATE = re.compile(f"[{chr(0xD800)}-{chr(0xDFFF)}]")


@dataclass(slots=True)
class Decoded:
    """A value and how it was read."""

    value: JsonValue
    status: ValueStatus

    @property
    def is_readable(self) -> bool:
        """Whether the value was decoded, rather than kept as text or missing."""
        return self.status in ("ok", "repaired", "python_repr")


ABSENT = Decoded(None, "absent")
REDACTED = Decoded(None, "redacted")


def decode(raw: JsonValue) -> Decoded:
    """The JSON value that an attribute stands for.

    Args:
        raw: an attribute's value; None where there is none.

    Returns:
        The value, with status ok (structured, or strict JSON), repaired (JSON in JSON, NaN, duplicate keys, lone
        surrogates), python_repr, text or truncated (both keep the text as it came, or what a JSON text quotes),
        redacted or absent (None).
    """
    if type(raw) is not str:
        return ABSENT if raw is None else Decoded(raw, "ok")
    if raw[:1] == "{":  # nearly all values: strict JSON that hides nothing
        try:
            value = orjson.loads(raw)
        except ValueError:
            value = None
        if value is not None:
            members, containers, exact = _survey(value)
            # Every member has one colon: as many colons as members say that no member overwrote another.
            is_plain = exact and containers <= MAX_NESTING
            if is_plain and (members == raw.count(":") or not _may_have_duplicates(raw, value)):
                return Decoded(value, "ok")
    text = raw.strip()
    if text[:1] == "\ufeff":  # a byte order mark: of a file that was read, or of a shell
        inner = _decode_text(raw, text.lstrip("\ufeff").strip() or '""', 1)
        return Decoded(inner.value, "repaired") if type(inner.value) in (dict, list) else Decoded(raw, "text")
    if len(text) <= _LONGEST_SENTINEL:
        if not text:
            return Decoded(raw, "text")
        if text in _ABSENT:
            return ABSENT
    if text[:1] in ("[", "<", "_") and is_masked(text):
        return REDACTED
    return _decode_text(raw, text, 1)


class HasAttributes(Protocol):
    """A span, or what is known of one."""

    @property
    def attributes(self) -> Mapping[str, JsonValue]:
        """Its attributes by key."""


def first_text(span: HasAttributes, keys: tuple[str, ...]) -> str:
    """The first non-empty text under one of `keys`, "" when there is none; without its quotes if it has (MLflow)."""
    attributes = span.attributes
    for key in keys:
        value = attributes.get(key)
        if type(value) is str and value:
            if value[0] != '"':
                return value
            inner = decode(value).value
            if type(inner) is str and inner:
                return inner
        elif type(value) is int:
            return str(value)
    return ""


def text_among(raw: JsonValue, words: tuple[str, ...]) -> str:
    """The first non-empty text under one of `words` in the object that an attribute stands for, "" for none."""
    value = decode(raw).value
    found = (value.get(word) for word in words) if isinstance(value, dict) else ()
    return next((text for text in found if isinstance(text, str) and text), "")


def is_masked(text: str) -> bool:
    """Whether this is a mark that senders write in place of a hidden text."""
    if text.startswith(_REDACTED_AS):
        return text.find("]") == len(text) - 1
    return len(text) <= _LONGEST_SENTINEL and text.lower() in _REDACTED


def call_id(raw: JsonValue) -> str | None:
    """A call id, None where it is missing or a sentinel."""
    if type(raw) is str and raw not in _NO_CALL_ID:
        if raw[0] not in '[<_"':
            return raw
        if raw[0] == '"':  # quoted, as MLflow and Langfuse write any value
            inner = decode(raw).value
            return call_id(inner) if inner != raw else raw
        return None if is_masked(raw) else raw
    if type(raw) is int:
        return str(raw)
    return None


def canonical(value: JsonValue) -> str:
    """A canonical text: equal for equal values, with object members in any order and lists in order."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, ValueError):  # integers beyond 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _decode_text(raw: str, text: str, encodings: int) -> Decoded:
    parsed = _parse_json(text) if not text.startswith(_PYTHON_START) else None
    if parsed is None:
        return _decode_other(raw, text)
    value = parsed.value
    if type(value) is str and value[:1] in ("{", "[", '"') and encodings < MAX_ENCODINGS:
        inner = _decode_text(value, value.strip(), encodings + 1)
        if inner.status == "ok":
            return Decoded(inner.value, "repaired" if type(inner.value) is not str else "ok")
        return inner if inner.is_readable or inner.status == "truncated" else parsed
    return parsed


def _parse_json(text: str) -> Decoded | None:
    """`text` as JSON, None when it is not."""
    try:
        value: JsonValue = orjson.loads(text)
    except ValueError:
        return _parse_loose_json(text, repaired=True) if text[0] in '{["' else None
    kind = type(value)
    if kind is dict or kind is list:
        members, containers, exact = _survey(value)
        if not exact:
            return _parse_loose_json(text, repaired=False)
        if containers > MAX_NESTING and _is_too_deep(value):
            return None
        if members != text.count(":") and _may_have_duplicates(text, value):
            return _parse_loose_json(text, repaired=False)
    elif kind is float and abs(value) >= _INEXACT:  # type: ignore[arg-type]  # checked by kind
        return _parse_loose_json(text, repaired=False)
    return Decoded(value, "ok")


def parse_plain(raw: JsonValue) -> JsonValue:
    """`raw`, or the JSON that it is the text of, without a look at what a text may hide: see `is_exact`."""
    value = _parse_strict(raw, ("[", "{"))
    return decode(raw).value if value is None else value


def parse_object(raw: JsonValue) -> JsonValue:
    """The object that `raw` is the strict JSON of, None for all else; without a look at what its values may hide."""
    return _parse_strict(raw, ("{",))


def _parse_strict(raw: JsonValue, beginnings: tuple[str, ...]) -> JsonValue:
    """What strict JSON with one of these first characters says, None for all else."""
    if type(raw) is str and raw[:1] in beginnings:
        try:
            value: JsonValue = orjson.loads(raw)
            return value
        except ValueError:
            pass
    return None


def is_exact(value: JsonValue) -> bool:
    """Whether no number in a value of `parse_plain` may have been an integer that a float cannot hold."""
    if type(value) is dict:
        for part in value.values():
            if type(part) not in _PLAIN_KINDS:
                return _survey(value)[2]
        return True  # nearly all arguments
    if type(value) is list:
        return _survey(value)[2]
    return type(value) is not float or abs(value) < _INEXACT


def _survey(value: JsonValue) -> tuple[int, int, bool]:
    """How many object members and how many containers `value` has, and whether its integers are certainly exact."""
    members, exact = 0, True
    containers = [value]
    for item in containers:  # grows on the way
        inner: Iterable[JsonValue]
        if type(item) is dict:  # checked by kind: isinstance costs twice as much, and this is every value's path
            members += len(item)
            inner = item.values()
        else:
            inner = item  # type: ignore[assignment]
        for part in inner:
            kind = type(part)
            if kind is str or kind is int:
                continue
            if kind is dict or kind is list:
                containers.append(part)
            elif kind is float and not -_INEXACT < part < _INEXACT:  # type: ignore[operator]
                exact = False
    return members, len(containers), exact


def _is_too_deep(value: JsonValue) -> bool:
    level: list[JsonValue] = [value]
    for _ in range(MAX_NESTING):
        below: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        level = below
    return any(isinstance(item, dict | list) for item in level)


def _may_have_duplicates(text: str, value: JsonValue) -> bool:
    """Whether some of the members in `text`, which is the JSON of `value`, overwrote others."""
    # A text with more quotes than the value needs is parsed again, slowly.
    if text.count('"') == orjson.dumps(value).count(b'"'):
        return False
    repairs = _Repairs()
    json.loads(text, object_pairs_hook=repairs.members, parse_int=repairs.integer)
    return repairs.repaired


class _Repairs:
    """Hooks for the standard library's parser that note what had to be repaired."""

    def __init__(self, repaired: bool = False) -> None:
        self.repaired = repaired

    def constant(self, name: str) -> str:
        self.repaired = True
        return name  # NaN and the infinities by their names, as the protobuf JSON mapping has them

    def integer(self, digits: str) -> int | str:
        return int(digits) if len(digits) <= MAX_DIGITS else digits

    def number(self, text: str) -> float | str:
        value = float(text)
        return value if math.isfinite(value) else text

    def members(self, pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self.repaired = True
        return value


def _parse_loose_json(text: str, *, repaired: bool) -> Decoded | None:
    """Read what the standard library accepts besides orjson: integers, NaN, lone surrogates, control characters."""
    repairs = _Repairs(repaired)
    try:
        value = json.loads(
            text,
            strict=False,
            parse_constant=repairs.constant,
            parse_int=repairs.integer,
            parse_float=repairs.number,
            object_pairs_hook=repairs.members,
        )
        if _is_too_deep(value):
            return None
        written = canonical(value)
    except (ValueError, RecursionError):
        return None
    if _SURROGATE.search(written):
        repairs.repaired = True
        value = _without_surrogates(value)
    return Decoded(value, "repaired" if repairs.repaired else "ok")


def _without_surrogates(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_SURROGATE.sub("\ufffd", key): _without_surrogates(item) for key, item in value.items()}
    return value


def _decode_other(raw: str, text: str) -> Decoded:
    """A text that is not JSON: a Python literal, a cut-off value, or just text."""
    if text in _LITERAL_WORDS:
        return Decoded(_LITERAL_WORDS[text], "python_repr")
    cut = False
    if text.startswith(_LITERAL_START):
        opens = text[0] in "{["
        cut = opens and not text.startswith(_PYTHON_START) and _is_cut_json(text)
        if not cut and len(text) <= MAX_LITERAL_CHARS:
            found = _parse_plain_literal(text) or _parse_literal(text)
            if isinstance(found, Decoded):
                return found
            cut = opens and found == "cut"
    return Decoded(raw, "truncated" if cut or len(raw) in _ROUND_LIMITS else "text")


def _is_cut_json(text: str) -> bool:
    """Whether `text` is the beginning of a JSON value that does not end."""
    try:
        json.loads(text, parse_int=_Repairs().integer)
    except json.JSONDecodeError as error:
        rest = text[error.pos :]
        return (
            error.msg.startswith("Unterminated string")
            or not rest
            or (len(rest) < 10 and any(word.startswith(rest) for word in _JSON_WORDS))
            or (error.msg.startswith("Invalid \\u") and len(rest) < 6)
        )
    except (ValueError, RecursionError):
        return False
    return False


def _parse_plain_literal(text: str) -> Decoded | None:
    """Most Python literals, in a tenth of the time: those that are JSON but for their quotes and three words.

    Without a double quote or a backslash, every apostrophe begins or ends a text.
    """
    if '"' in text or "\\" in text:
        return None
    parts = text.split("'")
    code = "'".join(parts[::2])  # what stands outside of texts
    for word, json_word in _PYTHON_WORDS:
        if json_word in code:
            return None
        code = code.replace(word, json_word)
    parts[::2] = code.split("'")
    try:
        value: JsonValue = orjson.loads('"'.join(parts))
    except ValueError:
        return None
    if type(value) is not dict and type(value) is not list:
        return None
    _, containers, exact = _survey(value)
    return Decoded(value, "python_repr") if exact and containers <= MAX_NESTING else None


def _parse_literal(text: str) -> "Decoded | str | None":
    """`text` as a Python literal, "cut" when it is the beginning of one, None when it is neither."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a text is the sender's business
            literal = ast.literal_eval(text)
        return Decoded(literal_json(literal, 0), "python_repr")
    except SyntaxError as error:
        return "cut" if any(hint in error.msg for hint in _UNCLOSED) else None
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None


def literal_json(literal: object, depth: int = 0) -> JsonValue:
    """A Python literal as JSON; `depth` is how deep it lies in what it is a part of.

    Raises:
        ValueError: it holds something JSON has no word for, or is nested too deep.
    """
    if depth > MAX_NESTING:
        raise ValueError("nested too deep")
    if literal is None or isinstance(literal, bool):
        return literal
    if isinstance(literal, str):
        return _SURROGATE.sub("\ufffd", literal)
    if isinstance(literal, int):
        if literal.bit_length() > MAX_DIGITS * 3:
            raise ValueError("too many digits")
        return literal
    if isinstance(literal, float):
        return literal if math.isfinite(literal) else str(literal)
    if isinstance(literal, bytes):
        return literal.decode("utf-8", "replace")
    if isinstance(literal, list | tuple):
        return [literal_json(item, depth + 1) for item in literal]
    if isinstance(literal, set | frozenset):
        # A set has no order of its own, and Python's changes with the hash seed.
        return sorted((literal_json(item, depth + 1) for item in literal), key=canonical)
    if isinstance(literal, dict):
        return {
            key if isinstance(key, str) else canonical(literal_json(key, depth + 1)): literal_json(item, depth + 1)
            for key, item in literal.items()
        }
    raise ValueError(f"no JSON for {type(literal).__name__}")
