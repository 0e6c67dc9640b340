"""What broke, as it is stored with an alert: plain values, read back also from rows of other versions."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

SLICED_BY = ("release", "agent", "model", "prompt", "tool")
"""What results are sliced by beside attributes."""


class _Stored:
    """A dataclass whose fields all have defaults, stored as a JSON object."""

    __slots__ = ()

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The object of which `stored` is the JSON; what this version does not know is left out."""
        names = {known.name for known in fields(cls)}  # type: ignore[arg-type]  # every subclass is a dataclass
        return cls(**{name: value for name, value in stored.items() if name in names})


@dataclass(frozen=True, slots=True)
class Reason(_Stored):
    """One reason of bad results: a text, with "…" in place of numbers and ids that differ from result to result.

    ``evaluation`` is the evaluation that says so. Of ``of`` bad results that were looked at since it began, ``count``
    have this reason; before it began, ``count_before`` of ``of_before``. ``share`` and ``share_before`` are the same as
    shares of all results, 0..1; None where there was no result before. ``example`` has the values of one result, of the
    trace ``trace_id``; "" where values may not be told.
    """

    evaluation: str = ""
    text: str = ""
    count: int = 0
    of: int = 0
    share: float = 0.0
    count_before: int = 0
    of_before: int = 0
    share_before: float | None = None
    example: str = ""
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class Slice(_Stored):
    """The results that have one value in common, and how much of the fall they explain.

    ``by`` is one of `SLICED_BY` or the name of an attribute, ``value`` its value.
    ``explains``, 0..1: the bad results beyond what the slice would have had as it was before, divided by all of those.
    ``bad`` is the share of bad results in it since it began, or one minus its mean score, or the mean of what was
    measured; ``bad_before`` before, None where there was no such result. ``share`` is its part of all results since it
    began.
    """

    by: str = ""
    value: str = ""
    explains: float = 0.0
    bad: float = 0.0
    bad_before: float | None = None
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Change(_Stored):
    """What changed near the beginning: ``what`` is ``release``, ``model``, ``prompt``, ``rule`` or ``tracegrade``.

    ``time_ns``: when it was first seen, to the minute.
    """

    what: str = ""
    time_ns: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis(_Stored):
    """What broke: why results are bad, where, what changed near that time, and examples.

    ``reasons`` and ``slices``: what explains most first. ``changes`` in order of time. ``examples`` are ids of the
    worst traces, those with the first reason first. ``traces``: how many traces were looked at when it was found; with
    ``more_traces``, there are more. All but ``traces`` is of the results from ``since_ns`` on.
    """

    reasons: list[Reason] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    traces: int = 0
    more_traces: bool = False
    since_ns: int = 0

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """As of every stored object; its parts likewise."""
        return cls(
            reasons=[Reason.from_json(item) for item in stored.get("reasons", ())],
            slices=[Slice.from_json(item) for item in stored.get("slices", ())],
            changes=[Change.from_json(item) for item in stored.get("changes", ())],
            examples=list(stored.get("examples", ())),
            traces=stored.get("traces", 0),
            more_traces=stored.get("more_traces", False),
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return asdict(self)


def named_traces(facts: Mapping[str, Any]) -> set[str]:
    """The traces (hex) that stored facts of an alert name."""
    return {*facts.get("worst", ()), *(reason.get("trace_id", "") for reason in facts.get("reasons", ()))}


def without_traces(facts: Mapping[str, Any], hex_ids: Collection[str]) -> dict[str, Any]:
    """Stored facts of an alert without what is of these traces: their ids, and values in examples of reasons.

    Without values of attributes, too, since nothing says of which traces they are. Counts stay. Equal to `facts` when
    there is none of this in them.
    """
    left = dict(facts)
    if "worst" in facts:
        left["worst"] = [trace_id for trace_id in facts["worst"] if trace_id not in hex_ids]
    if "reasons" in facts:
        left["reasons"] = [
            {**reason, "example": "", "trace_id": ""} if reason.get("trace_id") in hex_ids else reason
            for reason in facts["reasons"]
        ]
    if "slices" in facts:
        left["slices"] = [item for item in facts["slices"] if item.get("by") in SLICED_BY]
    return left
