"""schema-validation: how well do a call's arguments fit the tool's parameters?

Three shares, and 0.5, 0.3 and 0.2 of them as the score: of the required parameters, those that are there; of the known
parameters given, those of the right JSON type (true is no integer; enumerations are not looked at); of all given, those
that the schema knows. A share of nothing is 1. All are rounded to four decimals. An empty schema scores nothing.

`args-schema` asks whether arguments are valid, by the whole of JSON Schema; this one asks how nearly.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from tracegrade.evaluate.compare.case_scoring import Occurrence, ScoredCall, ending_calls, scored_calls, stays_first
from tracegrade.evaluate.criteria.field_types import VERBATIM
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.evaluator import Evaluator, ScoreRange
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.unknown import undecided, unknown_parts
from tracegrade.evaluate.wording import detailed, listed
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import Unknown

_WEIGHTS = {"required_present": 0.5, "type_correct": 0.3, "hallucination_free": 0.2}
_DECIMALS = 4


class Criteria(ParameterModel):
    """What is expected."""

    parameters_schema: Annotated[
        dict[str, Any], VERBATIM, Field(description="The JSON Schema of the tool's parameters.")
    ]


class Settings(ParameterModel):
    """Which call is judged."""

    tool: Annotated[str | None, Field(description="Look only at calls of this tool.")] = None
    occurrence: Occurrence = "first"


def _judged_calls(evidence: Evidence, settings: Settings) -> Sequence[ScoredCall]:
    """The call that is judged, and those that may be it, since their order is unknown; none without any."""
    calls = [call for call in evidence.once(scored_calls) if settings.tool is None or call.name == settings.tool]
    if not calls:
        return ()
    ranks = evidence.once(Timeline).ranks([*dict.fromkeys(call.position for call in calls)])
    return ending_calls(calls, ranks[0 if settings.occurrence == "first" else -1], settings.occurrence)


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    schema = criteria.parameters_schema
    if not schema:
        return Score(None, dict.fromkeys(_WEIGHTS), "The schema is empty, so there is nothing to score.")
    calls = _judged_calls(evidence, settings)
    if not calls:
        return Score(None, {}, "No call has arguments to compare with the schema.")
    unknown = unknown_parts(evidence, "arguments") if not evidence.as_given else {}
    if (hidden := next((unknown[call.position] for call in calls if call.position in unknown), None)) is not None:
        return undecided(hidden)
    work = Work()
    return max((_fit(schema, call, work) for call in calls), key=lambda fit: fit.score or 0.0)


def _fit(schema: dict[str, Any], call: ScoredCall, work: Work) -> Score:
    """How well the arguments of one call fit."""
    assert not isinstance(call.arguments, Unknown), "it is looked at only where all can be read"
    given = call.arguments or {}
    work.spend(len(given))
    properties = schema.get("properties")
    required = schema.get("required")
    missing = [name for name in required if name not in given] if isinstance(required, list) else []
    known = properties if isinstance(properties, dict) else {}
    # A schema that names no properties forbids none.
    unknown = [name for name in given if name not in known] if known else []
    wrong = [name for name, value in given.items() if name in known and not _has_type(value, known[name])]
    shares = {
        "required_present": _share(len(missing), len(required) if isinstance(required, list) else 0),
        "type_correct": _share(len(wrong), len(given) - len(unknown) if known else 0),
        "hallucination_free": _share(len(unknown), len(given)),
    }
    score = sum(_WEIGHTS[name] * share for name, share in shares.items())
    details: dict[str, JsonValue] = {name: round(share, _DECIMALS) for name, share in shares.items()}
    details |= {"missing": detailed(missing), "wrong_type": detailed(wrong), "unknown": detailed(unknown)}
    reasons = [f"{what} {listed(names)}" for what, names in _reasons(missing, wrong, unknown) if names]
    text = f"The arguments do not fit the schema: {'; '.join(reasons)}." if reasons else "The arguments fit the schema."
    return Score(round(score, _DECIMALS), details, text)


def _reasons(missing: list[str], wrong: list[str], unknown: list[str]) -> Iterable[tuple[str, list[str]]]:
    return ("missing", missing), ("wrong type of", wrong), ("unknown", unknown)


def _share(bad: int, of: int) -> float:
    return (of - bad) / of if of else 1.0


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def _has_type(value: JsonValue, described: Any) -> bool:
    """Whether a value has the declared type, or one of them; an undeclared or unknown type is any."""
    declared = described.get("type") if isinstance(described, dict) else None
    names = declared if isinstance(declared, list) else [declared]
    types = [_TYPES.get(name) if isinstance(name, str) else None for name in names]
    if None in types:
        return True
    if isinstance(value, bool):
        return (bool,) in types
    return any(isinstance(value, allowed) for allowed in types if allowed is not None)


def _with_further_calls(evidence: Evidence, criteria: Criteria, settings: Settings, score: float) -> ScoreRange:
    positions = [call.position for call in _judged_calls(evidence, settings)]
    if settings.occurrence == "first" and stays_first(evidence, positions):
        return score, score
    return 0.0, 1.0


EVALUATOR = Evaluator(
    name="schema-validation",
    summary="How well do a call's arguments fit the tool's parameters?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    asks=frozenset({"arguments"}),
    with_further_calls=_with_further_calls,
    never_scores=lambda criteria, settings: (
        None if criteria.parameters_schema else "parameters_schema is empty, so nothing is ever scored"
    ),
)
