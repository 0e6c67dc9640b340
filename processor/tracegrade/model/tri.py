"""Yes, no or unknown: what can be said of a trace that does not show everything.

A `Tri` is true, false, or an `Unknown`, which says what cannot be read and why. They combine as in Kleene's logic: an
unknown part decides nothing, and what the other parts decide holds whatever it is.

Worked example: of ``all_of([unknown, False])`` nothing is unknown, since one part is false. ``all_of([unknown, True])``
is unknown, for the reason of the first unknown part.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, Never, TypeAlias

from tracegrade.model.tool_call import CallPart, ValueStatus

UnknownKind: TypeAlias = ValueStatus | Literal["open", "masked", "hashed", "no_path", "unread", "too_large", "failed"]
"""What happened to it: a status for which nothing can be read; or members were dropped, a part was masked or hashed, a
path leads into a text, work of the agent gave no call that can be read, it is more than is searched, or an expression
failed on it.
"""

UnknownPart: TypeAlias = (
    CallPart | Literal["name", "earlier_name", "agent", "failure", "error", "prompt", "final_answer", ""]
)

PROMPT_UNREADABLE = "the prompt cannot be read"
ANSWER_UNREADABLE = "the final answer cannot be read"
"""The reasons of which a rule's expression, a clause and an evaluator speak; others are in `evaluate.unknown`."""


class Unknown(NamedTuple):
    """What cannot be read, so that neither yes nor no is known.

    Attributes:
        kind: what happened to it.
        part: what of a call or a run cannot be read.
        position: of the call, among those that are judged; None without one.
        tool: the name of the call.
        span_id: the span of the call.
        source: the source of a value, as the rule names it, where that cannot be read.
        said: the reason in words, where kind and part do not say it; else "".
        bounded: the answer is the one for yes or the one for no. Otherwise what depends on it may be anything.
    """

    kind: UnknownKind
    part: UnknownPart = ""
    position: int | None = None
    tool: str = ""
    span_id: str = ""
    source: str = ""
    said: str = ""
    bounded: bool = True

    def __bool__(self) -> Never:
        """Refuse to be taken for yes or no.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"unknown ({self.kind}) is neither true nor false; compare with 'is True' or 'is False'")


Tri: TypeAlias = bool | Unknown


def all_of(answers: Iterable[Tri]) -> Tri:
    """Whether all are true: false if one is, else the first unknown one; nothing after the first false one is asked."""
    unknown: Unknown | None = None
    for answer in answers:
        if answer is False:
            return False
        if answer is not True and unknown is None:
            unknown = answer
    return True if unknown is None else unknown


def any_of(answers: Iterable[Tri]) -> Tri:
    """Whether one is true: true if one is, else the first unknown one; nothing after the first true one is asked."""
    unknown: Unknown | None = None
    for answer in answers:
        if answer is True:
            return True
        if answer is not False and unknown is None:
            unknown = answer
    return False if unknown is None else unknown


def negated(answer: Tri) -> Tri:
    """Whether it is false; unknown for the same reason."""
    return not answer if answer is True or answer is False else answer
