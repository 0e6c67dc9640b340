"""Why results are bad: their explanations, counted since it began and before."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlalchemy import Connection

from tracegrade.alert.diagnose.cases import MOST_READ, Case, with_values
from tracegrade.alert.diagnose.watched import Watched
from tracegrade.display import explanation, json_text
from tracegrade.model.evaluation import Evaluation
from tracegrade.store.diagnosis import Reason
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS

MOST_REASONS = 5
_MOST_EXAMPLES = 5
_LONGEST_TEXT = 300
_LONGEST_VALUE = 60
_DIFFERS = "…"

# What differs from result to result and is no reason of its own: ids; numbers with a unit, if any; digits in a word.
_VARYING = re.compile(
    r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|(?<![A-Za-z0-9])(?:(?=[a-f]*\d)[0-9a-f]{8,}|(?=[A-Za-z]*\d)[A-Za-z0-9]{16,})(?![A-Za-z0-9])"
    r"|(?<!\w)\d++(?:[.,:]\d++)*+(?:[nmµu]?s|m|h|d|%)?(?!\w)"
    r"|\d{3,}"
)

ReasonKey: TypeAlias = tuple[str, tuple[str, ...]]
"""An evaluation, and its text around what differs."""


@dataclass(slots=True)
class _Group:
    """The cases with one reason since it began, and how many had it before.

    ``words`` are the numbers and ids in its text, None where they differ.
    """

    words: list[str | None]
    cases: list[tuple[Case, Evaluation]] = field(default_factory=list)
    before: int = 0


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of bad results among all since it began, and before; None where there were none."""

    since: float
    before: float | None


def reasons(
    connection: Connection,
    watched: Watched,
    since: Sequence[Case],
    before: Sequence[Case],
    shares: Shares,
    include_values: bool,
) -> tuple[list[Reason], list[str]]:
    """The reasons of bad cases, and ids of traces that show them; what rose most comes first.

    Args:
        connection: on the store.
        watched: what the alert watches.
        since: bad cases since it began; at most `MOST_READ` are looked at.
        before: the same of the time before.
        shares: of bad results.
        include_values: whether values of traces may be told.
    """
    groups: dict[ReasonKey, _Group] = {}
    now, then = (list(_reasons_by_case(connection, watched, cases[:MOST_READ])) for cases in (since, before))
    for case, said in now:
        for key, (words, evaluation) in said.items():
            group = groups.setdefault(key, _Group([*words]))
            group.words = [one if one == other else None for one, other in zip(group.words, words, strict=True)]
            group.cases.append((case, evaluation))
    for _, said in then:
        for key in said.keys() & groups.keys():
            groups[key].before += 1
    found = []
    for key, group in groups.items():
        group.cases.sort(key=lambda pair: (pair[1].score or 0.0, -pair[0].number))
        found.append((_reason(key, group, len(now), len(then), shares, include_values), group))
    found.sort(key=lambda pair: (-_rise(pair[0]), -pair[0].count, pair[0].evaluation, pair[0].text))
    told = [case for _, group in found for case, _ in group.cases]
    told += sorted(since, key=lambda case: -case.number)  # those that could not be read
    return [reason for reason, _ in found[:MOST_REASONS]], traces_of(told)


def reason_key(evaluation: Evaluation) -> ReasonKey:
    """What bad evaluations for the same reason have in common: numbers, ids and the like in their texts may differ."""
    return evaluation.evaluation, tuple(_VARYING.split(_shortened_explanation(evaluation)))


def _shortened_explanation(evaluation: Evaluation) -> str:
    return explanation(evaluation, False)[:_LONGEST_TEXT]


def _reasons_by_case(
    connection: Connection, watched: Watched, cases: Sequence[Case]
) -> Iterator[tuple[Case, dict[ReasonKey, tuple[list[str], Evaluation]]]]:
    """Why each case is bad: what differs in each text, and the evaluation that says so."""
    results = with_values(connection, cases)
    of_subject: dict[tuple[int, str, str], list[Evaluation]] = {}
    for number, result in results.items():
        for evaluation in result.evaluations:
            subject = evaluation.subject
            of_subject.setdefault((number, subject.kind, subject.id), []).append(evaluation)
    for case in cases:
        said: dict[ReasonKey, tuple[list[str], Evaluation]] = {}
        for evaluation in of_subject.get((case.number, SUBJECT_KINDS[case.kind], case.subject), ()):
            if (
                evaluation.rule_id == watched.alert.rule_id
                and watched.evaluation in ("", evaluation.evaluation)
                and OUTCOMES.index(evaluation.outcome) in watched.bad
            ):
                key = reason_key(evaluation)
                said.setdefault(key, (_VARYING.findall(_shortened_explanation(evaluation)), evaluation))
        if said:
            yield case, said


def _reason(key: ReasonKey, group: _Group, now: int, then: int, shares: Shares, include_values: bool) -> Reason:
    evaluation, pieces = key
    words = [_DIFFERS if word is None else word for word in group.words]
    text = "".join(piece + word for piece, word in zip(pieces, [*words, ""], strict=True))
    first, count = group.cases[0], len(group.cases)
    example = _values_of(first[1]) if include_values else ""
    # None, too, where none of those before can be read: that is not zero.
    before = shares.before * group.before / then if shares.before and then else None if shares.before else shares.before
    return Reason(
        evaluation=evaluation,
        text=text,
        count=count,
        of=now,
        share=shares.since * count / now,
        count_before=group.before,
        of_before=then,
        share_before=before,
        example=example,
        trace_id=first[0].trace_id if example else "",
    )


def _rise(reason: Reason) -> float:
    return reason.share - (reason.share_before or 0.0)


def _values_of(evaluation: Evaluation) -> str:
    """The rule's own sentence, the first value that is not as expected, or the whole error; "" without a value."""
    if evaluation.outcome == "error":
        return evaluation.explanation[:_LONGEST_TEXT]
    if (full := evaluation.full_explanation) != evaluation.explanation:
        return full
    differences = evaluation.details.get("differences")
    first = differences[0] if isinstance(differences, list) and differences else None
    if not isinstance(first, Mapping):
        return ""
    parts = [f"{word} {_short(first[word])}" for word in ("expected", "found") if word in first]
    return f"{first.get('call')} {first.get('path')}: {', '.join(parts) or first.get('problem')}"


def _short(value: object) -> str:
    text = json_text(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + _DIFFERS


def traces_of(cases: Sequence[Case]) -> list[str]:
    """The ids of the traces of the first cases: a few, each once."""
    return list(dict.fromkeys(case.trace_id for case in cases))[:_MOST_EXAMPLES]
