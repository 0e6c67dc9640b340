"""trajectory: how do the calls made compare with those expected, by any of the field's measures?

``match`` says which sequences count: ``exact`` (these calls in this order and no others), ``in_order`` (these in this
order, others between), ``any_order`` (these, and others), ``unordered`` (these and no others), ``subset`` (none but
these). ``args`` says which arguments of a call count, ``outputs`` whether its output does, ``names`` how tools are
named, and ``call_credit`` how much a partly matching call counts. ``score`` sets how the score is calculated:
``binary`` (1 when `match` holds, else 0), ``recall`` (the share of what was expected), ``precision`` (the share of what
was done) or ``f1`` of both. For ``in_order`` the calls that count are a longest common subsequence, for ``exact`` those
at their position, otherwise those of a pairing one to one.

Where no order is asked for, ``pairing`` decides which calls are compared: with ``best``, those that are worth most
together: as many as possible, or with ``call_credit: fractional`` the greatest sum of shares; with ``first``, each
expected call, in order, takes the unused call that fits it best, the earliest of equals, and none is given back; with
``positional``, the second expected call of a name is compared with the second call of it, and so on. With ``best``, the
order in which the expected calls are written does not change the score. Calls made together have no order: they take
the best one, unless ``concurrency: sequential``.

Beside or instead of expected calls, conditions that all must hold, or the score is 0: ``counts`` of tools, numbers of
``calls``, ``failed_calls`` and ``steps`` (calls made together are one), and names or adjacent sequences that are
``required``, ``forbidden``, or the only ones ``allowed``. ``efficiency`` takes off for calls that were not needed.

If ``tool_calls`` is empty, a binary score follows ``match`` literally: with ``any_order`` or ``in_order`` it is always
1, otherwise 1 only when nothing was called. Any other score is 1 when nothing was called, else 0. ``on_empty: skip``
scores neither, ``error`` calls it a mistake.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from tracegrade.display import count
from tracegrade.evaluate.call_facts import arguments
from tracegrade.evaluate.compare.arguments import ArgumentsComparison
from tracegrade.evaluate.compare.differences import MAX_EXPLAINED, line, listed_differences, origins_of, paths_of
from tracegrade.evaluate.compare.expected_calls import ExpectedCall, ExpectedCalls, output_differences
from tracegrade.evaluate.compare.outputs import ExpectedOutput
from tracegrade.evaluate.compare.trajectory_comparison import TrajectoryComparison
from tracegrade.evaluate.compare.trajectory_criteria import MATCH_ALIASES, Criteria, Match, Settings, TrajectoryCall
from tracegrade.evaluate.criteria.expected import Difference
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import BELOW_ONE, Evaluator, ScoreRange
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.pairing.by_name import TOO_MANY, PairingWord, with_next_unused
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.unknown import in_both_readings, unknown_failure
from tracegrade.evaluate.wording import ArgumentExcerpts, detailed, listed, were
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import Pairing
from tracegrade.model.json_value import JsonValue
from tracegrade.model.range import Range
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.tri import Unknown

# Sums of fractions: three calls worth a third, a third and a third are one call.
_TOLERANCE = 1e-9


def _judge(
    evidence: Evidence, criteria: Criteria, settings: Settings, optimistic: bool
) -> tuple[Score, Unknown | None]:
    if criteria.tool_calls is None and not criteria.has_conditions and settings.efficiency is None:
        return Score(None, {}, "Nothing is expected, so there is nothing to score."), None
    if criteria.tool_calls == []:
        if settings.on_empty == "error":
            raise EvaluatorError("invalid_criteria", "trajectory: tool_calls: expected at least one call")
        if settings.on_empty == "skip":
            return Score(None, {}, "No calls are expected, so there is nothing to score."), None
    comparison = TrajectoryComparison(evidence, criteria, settings, optimistic=optimistic)
    asks_failures = not settings.include_failed or criteria.failed_calls is not None
    if asks_failures and (hidden := unknown_failure(evidence)) is not None:
        comparison.work.note(hidden._replace(bounded=False))
    score = at_best = 1.0
    text = ""
    details: dict[str, JsonValue] = {}
    if criteria.tool_calls is not None:
        comparison.pair()
        score, details, text = _judged(comparison)
        at_best = _scored(comparison, comparison.matched + comparison.more) if comparison.more else score
    calls = [evidence.calls[position] for position in comparison.made]
    place_of = {position: place for place, position in enumerate(comparison.made)}
    groups = [[place_of[position] for position in group] for group in evidence.once(Timeline).ranks(comparison.made)]
    if broken := criteria.broken(calls, groups, settings.names):
        score = at_best = 0.0
        text = f"{'; '.join(broken)}. {text}".rstrip()
        details["broken"] = list(broken)
    elif criteria.tool_calls is None:
        text = _of_conditions(comparison, criteria, calls)
    if settings.efficiency is not None:
        taken = settings.efficiency.taken_off(
            calls,
            [comparison.arguments[p] for p in comparison.made],
            groups,
            criteria.names_expected(),
            comparison.work,
        )
        score, at_best = taken.apply(score), taken.apply(at_best)
        details |= taken.details
        text = f"{text} {taken.explanation}".rstrip()
    if settings.negate:
        score, at_best = 1 - at_best, 1 - score
        text = _negated(comparison, score, text)
    ends = Range(score, at_best, TOO_MANY) if comparison.more else None
    return Score(score, details, text, range=ends, pairing=Pairing(comparison.pairs)), comparison.work.unknown


def _of_conditions(comparison: TrajectoryComparison, criteria: Criteria, calls: Sequence[ToolCall]) -> str:
    """What was found, where only conditions are set and all of them hold."""
    said = criteria.kept(calls)
    every = len(comparison.evidence.calls)
    failed = every - len(calls)
    if not comparison.settings.include_failed and every:
        said.insert(0, f"{failed} of {count(every, 'call')} failed" if failed else "no call failed")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _negated(comparison: TrajectoryComparison, score: float, text: str) -> str:
    """What was found, where what is expected must not be: of one call, in words of its own."""
    if len(comparison.pairs) != 1 or score not in (0, 1) or comparison.criteria.has_conditions:
        return f"The calls match what is forbidden: {text}" if score == 0 else text
    if score == 0:
        named = [comparison.evidence.calls[place].name for place in comparison.pairs if place is not None]
        return f"A forbidden call was made: {listed(named)}."
    return f"None of {count(len(comparison.made), 'call')} is forbidden."


class _Shares(NamedTuple):
    """The scores that ``score`` may ask for, when the pairs are worth so much."""

    binary: float
    recall: float
    precision: float
    f1: float


def _shares(comparison: TrajectoryComparison, matched: float) -> _Shares:
    expected, actual = len(comparison.pairs), len(comparison.made)
    recall = matched / expected if expected else float(not actual)
    precision = matched / actual if actual else float(not expected)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    holds = _HOLDS[MATCH_ALIASES.get(comparison.settings.match, comparison.settings.match)](matched, expected, actual)
    return _Shares(float(holds), recall, precision, f1)


def _scored(comparison: TrajectoryComparison, matched: float) -> float:
    score: float = getattr(_shares(comparison, matched), comparison.settings.score)
    return score


def _judged(comparison: TrajectoryComparison) -> tuple[float, dict[str, JsonValue], str]:
    matched = comparison.matched
    binary, recall, precision, f1 = _shares(comparison, matched)
    used = {position for position in comparison.pairs if position is not None}
    unexpected = [comparison.evidence.calls[p].name for p in comparison.made if p not in used]
    shown = with_next_unused(comparison.by_expected(), comparison.pairs)
    keys = comparison.prepared.shown.keys
    found = listed_differences(
        "",
        (
            (keys[index], comparison.differences(index, position))
            for index, position in enumerate(shown)
            if position is not None and comparison.worth[index] < 1 - _TOLERANCE
        ),
    )
    details: dict[str, JsonValue] = {
        "matched": matched,
        "expected": len(comparison.pairs),
        "actual": len(comparison.made),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "explained_tool_calls": _explained(comparison, shown),
        "unexpected_tool_calls": detailed(unexpected),
        "differences": found,
    }
    missing = [name for name, position in zip(comparison.prepared.shown.names, shown, strict=True) if position is None]
    text = _explain(comparison, bool(binary), missing, found, unexpected)
    return _scored(comparison, matched), details, text


_HOLDS: dict[Match, Callable[[float, int, int], bool]] = {
    "exact": lambda matched, expected, actual: expected == actual and matched >= expected - _TOLERANCE,
    "in_order": lambda matched, expected, actual: matched >= expected - _TOLERANCE,
    "any_order": lambda matched, expected, actual: matched >= expected - _TOLERANCE,
    "unordered": lambda matched, expected, actual: expected == actual and matched >= expected - _TOLERANCE,
    "subset": lambda matched, expected, actual: matched >= actual - _TOLERANCE,
}


def _explained(comparison: TrajectoryComparison, shown: Sequence[int | None]) -> dict[str, JsonValue]:
    excerpts = comparison.evidence.once(ArgumentExcerpts)
    lines: dict[str, JsonValue] = {}
    for index, key in enumerate(comparison.prepared.shown.keys[:MAX_EXPLAINED]):
        position = shown[index]
        actual = "not called" if position is None else excerpts[position]
        wanted = comparison.prepared.comparisons[index]
        expected = "any" if wanted.match == "ignore" else wanted.expected.text
        lines[key] = line(actual, expected, comparison.worth[index])
    return lines


def _explain(
    comparison: TrajectoryComparison,
    holds: bool,
    missing: Sequence[str],
    differ: Sequence[JsonValue],
    unexpected: Sequence[str],
) -> str:
    match = MATCH_ALIASES.get(comparison.settings.match, comparison.settings.match)
    expected = count(len(comparison.pairs), "expected call")
    if holds:
        return f"The calls are as expected ({match}, {expected})."
    paired = len(comparison.pairs) - comparison.pairs.count(None)
    reasons = [f"missing: {listed(missing)}"] if missing else []
    reasons += [f"mismatched: {listed(paths_of(differ))}", *origins_of(differ)] if differ else []
    if match in ("exact", "in_order") and not reasons and paired < len(comparison.pairs):
        reasons.append("not in the expected order")
    if match in ("exact", "unordered", "subset") and unexpected:
        reasons.append(f"unexpected: {listed(unexpected)}")
    made = f"{paired} of {were(len(comparison.pairs), 'expected call')} made ({match})"
    return f"{made}; {'; '.join(reasons) or 'the rest match in part'}."


def _never_scores(criteria: Criteria, settings: Settings) -> str | None:
    if criteria.tool_calls is None and not criteria.has_conditions and settings.efficiency is None:
        return "nothing is expected; give tool_calls, a condition such as forbidden, or efficiency"
    if criteria.tool_calls == [] and settings.on_empty != "score":
        return f"tool_calls is empty, and on_empty is {settings.on_empty}"
    return None


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    prepared = criteria.prepared(settings)
    calls = [
        _expected_call(call, comparison, output)
        for call, comparison, output in zip(
            criteria.tool_calls or (), prepared.comparisons, prepared.outputs, strict=True
        )
    ]
    return ExpectedCalls(calls)


def _pairing(criteria: Criteria, settings: Settings) -> PairingWord | None:
    one_twice = criteria.prepared(settings).one_twice
    in_order = MATCH_ALIASES.get(settings.match, settings.match) in ("exact", "in_order")
    return settings.pairing if one_twice and not in_order else None


def _contended(criteria: Criteria, settings: Settings) -> tuple[int, int] | None:
    prepared = criteria.prepared(settings)
    return next((pair for pair in combinations(range(len(prepared.names)), 2) if prepared.contend(*pair)), None)


def _expected_call(
    call: TrajectoryCall, comparison: ArgumentsComparison, output: ExpectedOutput | None
) -> ExpectedCall:
    def differ(evidence: Evidence, position: int, work: Work) -> Iterator[Difference]:
        yield from comparison.differences(evidence.once(arguments)[position], work)
        if output is not None:
            for item in output_differences(output, evidence, position, work):
                yield replace(item, path=("output", *item.path))

    args = None if call.args is None else call.args.source
    return ExpectedCall(listed_names(call.name), args, None if output is None else output.source, differ)


def _with_further_calls(evidence: Evidence, criteria: Criteria, settings: Settings, score: float) -> ScoreRange:
    if settings.occurrence != "any":  # another call may be the one that is looked at
        return 0.0, 1.0
    comparison = TrajectoryComparison(evidence, criteria, settings)
    least, most = (1.0, 1.0) if criteria.tool_calls is None else _range_of_calls(comparison)
    kept = criteria.after_further([evidence.calls[position] for position in comparison.made], settings.names)
    least, most = least if False not in kept else 0.0, most if True in kept else 0.0
    if settings.efficiency is not None:  # which takes off for calls that were not needed
        least = 0.0
    return (1 - most, 1 - least) if settings.negate else (least, most)


def _range_of_calls(comparison: TrajectoryComparison) -> ScoreRange:
    """What the expected calls alone can be worth, if further calls were made.

    In a common order, or in pairs that need none, a further call takes nothing away, and lets one call more fit at the
    most. Where calls are compared by where they stand, it moves all that follow.
    """
    comparison.pair()
    settings = comparison.settings
    match = MATCH_ALIASES.get(settings.match, settings.match)
    matched, expected, made = comparison.matched + comparison.more, len(comparison.pairs), len(comparison.made)
    now = _scored(comparison, matched)
    if not expected:
        return (now, now) if settings.score == "binary" and match in ("any_order", "in_order") else (0.0, now)
    moves = match == "exact" or (match != "in_order" and settings.pairing == "positional")
    best = match == "in_order" or settings.pairing == "best"
    may_all_fit = moves or not best or matched >= made - _TOLERANCE
    if settings.score == "recall" or (settings.score == "binary" and match in ("any_order", "in_order")):
        return 0.0 if moves else now, 1.0
    if settings.score != "binary":
        return 0.0, 1.0 if may_all_fit else max(now, BELOW_ONE)
    may_hold = made < expected and (may_all_fit if match == "unordered" else moves)
    return 0.0, 1.0 if may_hold else now


EVALUATOR = Evaluator(
    name="trajectory",
    summary="How do the calls made compare with those expected, by any of the field's measures?",
    Criteria=Criteria,
    Settings=Settings,
    pairing=_pairing,
    contended=_contended,
    score=in_both_readings(_judge),
    expected_calls=_expected_calls,
    asks=frozenset({"arguments", "output"}),
    never_scores=_never_scores,
    with_further_calls=_with_further_calls,
)
