"""Values, numbers and times as people read them, on the command line and on the page."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from tracegrade.model.evaluation import Evaluation
from tracegrade.semconv import ERROR_TYPE_OTHER


def json_text(value: Any) -> str:
    """Compact JSON; orjson where it can, the standard library for integers beyond 64 bits and lone surrogates."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):
        import json

        return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


# What changes how a terminal or an editor shows the text around it: control characters, what turns the direction of
# writing, what is not seen at all, and halves of characters, which no stream takes. Tabs stay, and so do the joiners
# that emoji and some scripts are written with.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""`text` as one line that is safe on a terminal: ``\x1b`` for an escape, and so on.

    Source: Unicode Technical Report 36, section 3.5; CVE-2021-42574 (directions of writing in source text).
    """
    return _UNPRINTABLE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """As `printable`, of a text whose line ends are meant."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """As `printable`, of JSON: the same value, with more of it escaped."""
    return _UNPRINTABLE.sub(_escape_in_json, text)


def printable_xml(text: str) -> str:
    """As `printable_lines`, of XML: the same text, with references for what it cannot show."""
    return _UNPRINTABLE.sub(lambda found: found[0] if found[0] == "\n" else f"&#x{ord(found[0]):x};", text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode()


def _escape_in_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


_PASSWORD = re.compile(r"(?:(?<=://)|^(?!\w[\w+.-]*://))(?:([^:/@\s]*):)?\S*@")
_SECRET_PARAMETER = re.compile(r"([?&][^=&\s]*(?:pass|token|key|secret|sig|auth|code)[^=&\s]*=)[^&\s]*", re.IGNORECASE)
_DIGITS_OF_A_FLOAT = 17
_MASK = "**********"  # as pydantic shows its secrets


def without_secrets(address: str) -> str:
    """A URL, or what was meant as one, without the password or token it may hold."""
    masked = _PASSWORD.sub(lambda found: f"{found[1]}:{_MASK}@" if found[1] else f"{_MASK}@", address)
    return _SECRET_PARAMETER.sub(rf"\g<1>{_MASK}", masked)


def judged_score_text(score: float, threshold: float) -> str:
    """A score in 4 digits, or in as many as show on which side of the threshold it is: 0.99997 of 1 is not 1."""
    digits = 4
    while digits < _DIGITS_OF_A_FLOAT and (float(f"{score:.{digits}g}") < threshold) != (score < threshold):
        digits += 1
    return f"{score:.{digits}g}"


def count(number: int, noun: str) -> str:
    """``1 rule``, ``2,000 rules``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def time_text(time_ns: int) -> str:
    """``2026-11-21 08:00:00``, in UTC; "" for 0, which stands for unknown."""
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S") if time_ns else ""


def elapsed_text(elapsed_ns: int) -> str:
    """Three digits of a length of time: ``1.25 s``, ``340 ms``, ``12 µs``."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1000)):
        if abs(elapsed_ns) >= size:
            value = elapsed_ns / size
            return f"{value:.0f} {unit}" if abs(value) >= 100 else f"{value:.3g} {unit}"
    return f"{elapsed_ns} ns"


def took_text(start_ns: int, end_ns: int) -> str:
    """How long something took, as `elapsed_text`; ``not ended`` where its end was never recorded (0)."""
    return elapsed_text(end_ns - start_ns) if end_ns else "not ended"


def error_type(evaluation: Evaluation) -> str:
    """The class of an evaluation's error, from its reason ``TYPE: MESSAGE``."""
    word = evaluation.reason.partition(":")[0]
    return word if word.replace(".", "_").isidentifier() else ERROR_TYPE_OTHER


def as_sent(evaluation: Evaluation, include_values: bool) -> Evaluation:
    """The evaluation with the reason and the explanation to send: the reason of an error may quote values, too."""
    said, reason = explanation(evaluation, include_values), evaluation.reason
    if evaluation.outcome == "error" and not include_values and reason:
        reason = error_type(evaluation)
    if (said, reason) == (evaluation.explanation, evaluation.reason):
        return evaluation
    return replace(evaluation, reason=reason, explanation=said)


def explanation(evaluation: Evaluation, include_values: bool) -> str:
    """The explanation to send: that of an error, and a rule's own sentence, quote the trace only with values."""
    if include_values:
        return evaluation.full_explanation
    if evaluation.outcome == "error":
        return f"the evaluator failed: {error_type(evaluation)}"
    return evaluation.explanation
