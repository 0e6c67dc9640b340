"""The sentences of what cannot be read, for which a rule is not evaluable."""

from tracegrade.evaluate.wording import listed
from tracegrade.model.tri import ANSWER_UNREADABLE, PROMPT_UNREADABLE, Unknown, UnknownKind, UnknownPart

_HASHED = "and can only be compared with other hashes"
_SENTENCES: dict[tuple[UnknownPart, UnknownKind], str] = {
    ("arguments", "absent"): "the arguments of a call were not recorded",
    ("arguments", "text"): "the arguments of a call are not an object",
    ("arguments", "no_path"): "the arguments of a call are text, which has no members",
    ("arguments", "truncated"): "the arguments of a call were cut off by the sender",
    ("arguments", "elsewhere"): "the arguments of a call are stored elsewhere",
    ("arguments", "redacted"): "the arguments of a call were redacted",
    ("arguments", "hashed"): f"an argument of a call was hashed, {_HASHED}",
    ("output", "absent"): "the output of a call was not recorded",
    ("output", "no_path"): "the output of a call is text, which has no members",
    ("output", "truncated"): "the output of a call was cut off by the sender",
    ("output", "elsewhere"): "the output of a call is stored elsewhere",
    ("output", "redacted"): "the output of a call was redacted",
    ("output", "hashed"): f"the output of a call was hashed, {_HASHED}",
    ("name", "absent"): "the tool of a call cannot be read",
    ("earlier_name", "absent"): "the tool of an earlier call cannot be read",
    ("name", "redacted"): "the name of a tool was redacted",
    ("agent", "redacted"): "which agent made a call was redacted",
    ("failure", "redacted"): "whether a call failed was redacted",
    ("error", "absent"): "the error of a call cannot be read",
    ("error", "redacted"): "the error of a call was redacted",
    ("error", "hashed"): f"the error of a call was hashed, {_HASHED}",
    ("prompt", "absent"): PROMPT_UNREADABLE,
    ("prompt", "redacted"): "the prompt was redacted",
    ("prompt", "hashed"): f"the prompt was hashed, {_HASHED}",
    ("final_answer", "absent"): ANSWER_UNREADABLE,
    ("final_answer", "redacted"): "the final answer was redacted",
    ("final_answer", "hashed"): f"the final answer was hashed, {_HASHED}",
}
# A part of it was redacted, which people are told in the same words.
_AS_REDACTED = ("open", "masked")


def sentence(unknown: Unknown) -> str:
    """Why it is unknown, in one sentence that names the call; no values."""
    text = unknown.said or _SENTENCES[unknown.part, "redacted" if unknown.kind in _AS_REDACTED else unknown.kind]
    if unknown.source and unknown.kind == "hashed":
        text = "that was hashed, so it can only be compared with other hashes"
    elif unknown.span_id and not unknown.said:
        named = "" if unknown.part == "name" else f"{listed([unknown.tool])}, " if unknown.tool else ""
        text = f"{text} ({named}span {unknown.span_id})"
    return f"an expected value comes from {unknown.source}, and {text}" if unknown.source else text
