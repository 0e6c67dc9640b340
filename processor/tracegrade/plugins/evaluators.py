"""Evaluators of installed packages: the entry-point group ``tracegrade.evaluators``, checked when they are loaded.

The same checks hold for an evaluator in a file beside a rule.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import CallPart, Evidence, Score
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.evaluation import Pairing
from tracegrade.model.range import Range
from tracegrade.plugins.entry_points import Plugin

MAX_DETAILS = 64 * 1024  # characters of details and explanation of one score, as JSON

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_READABLE = {*get_args(CallPart), "final_answer"}
_OF_EVERY_ITEM = {"evaluator", "name", "threshold"}


class ScoreError(TraceGradeError):
    """What an evaluator of a package, or of a file, gave is no score that can be kept."""


def put_in_force(found: Sequence[Plugin[Evaluator[Any, Any]]]) -> None:
    """Have rules name these evaluators beside ours; what they give is checked before it is kept.

    Raises:
        TraceGradeError: one is not what an evaluator must be.
    """
    from tracegrade.evaluate.registry import Package, put_beside

    for plugin in found:
        if plugin.member.name != plugin.name:
            raise plugin.error(
                f"expected an evaluator of the entry point's name, found the name {plugin.member.name!r}"
            )
        if (mistake := mistake_in(plugin.member)) is not None:
            raise plugin.error(mistake)
    put_beside(
        [replace(plugin.member, score=checked(plugin.member)) for plugin in found],
        {plugin.name: Package(plugin.package, plugin.version) for plugin in found},
    )


def mistake_in(evaluator: Evaluator[Any, Any]) -> str | None:
    """Why rules cannot use an evaluator that is none of ours; None when they can."""
    from tracegrade.evaluate.registry import EVALUATORS, packages

    name = evaluator.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"name: expected lower-case words joined by '-', found {name!r}"
    if name in EVALUATORS:
        return f"the name {name!r} is taken by an evaluator that TraceGrade has"
    if (package := packages().get(name)) is not None:
        return f"the name {name!r} is taken by an evaluator of {package.name} {package.version}"
    if not isinstance(evaluator.summary, str) or not evaluator.summary:
        return f"summary: expected a sentence that says what it judges, found {evaluator.summary!r}"
    for field in ("Criteria", "Settings"):
        model = getattr(evaluator, field)
        if not isinstance(model, type) or not issubclass(model, ParameterModel):
            return f"{field}: expected a class derived from {ParameterModel.__module__}.ParameterModel, found {model!r}"
        if shared := sorted(_OF_EVERY_ITEM & model.model_fields.keys()):
            return f"{field}: {shared[0]!r} is a field of every item; give it another name"
    if evaluator.Criteria is evaluator.Settings:
        return f"Criteria and Settings are one class, {evaluator.Criteria.__name__}; expected a class for each"
    if both := sorted(evaluator.Criteria.model_fields.keys() & evaluator.Settings.model_fields.keys()):
        return f"{both[0]!r} is a field of both Criteria and Settings; an item of a rule holds it once"
    if needed := [field for field, info in evaluator.Settings.model_fields.items() if info.is_required()]:
        return f"Settings: expected a default for every setting, found none for {needed[0]!r}"
    for field, parts in (("reads", evaluator.reads), ("asks", evaluator.asks)):
        if not isinstance(parts, frozenset) or not parts <= _READABLE:
            return f"{field}: expected a frozenset of {', '.join(sorted(_READABLE))}, found {parts!r}"
    attributes = evaluator.attributes
    if not isinstance(attributes, frozenset) or not all(isinstance(key, str) and key for key in attributes):
        return f"attributes: expected a frozenset of non-empty texts, found {attributes!r}"
    for function in ("score", "never_scores", "expected_calls", "sentences"):
        if not callable(getattr(evaluator, function)):
            return f"{function}: expected a function, found {getattr(evaluator, function)!r}"
    return None


def checked(evaluator: Evaluator[Any, Any]) -> Callable[[Evidence, Any, Any], Score]:
    """Its score function, as JSON can keep what it gives; what cannot be kept is an error of that evaluation alone."""
    judge = evaluator.score

    def score(evidence: Evidence, criteria: Any, settings: Any) -> Score:
        try:
            return _checked_score(judge(evidence, criteria, settings))
        except ScoreError as error:
            raise ScoreError(f"{evaluator.name}: {error}") from None

    return score


def _checked_score(given: Score) -> Score:
    if not isinstance(given, Score):
        raise ScoreError(f"expected a {Score.__module__}.Score, found {type(given).__name__}")
    number = given.score
    if number is not None and (not isinstance(number, int | float) or not 0 <= number <= 1):
        raise ScoreError(f"score: expected a number from 0 to 1, or None, found {number!r}")
    ends = given.range
    if ends is not None and (number is None or not isinstance(ends, Range) or not 0 <= ends.least <= ends.most <= 1):
        raise ScoreError(f"range: expected a Range from 0 to 1 beside a score, or None, found {ends!r}")
    if ends is not None and not isinstance(ends.why, str):
        raise ScoreError(f"range: expected a text that says why its ends differ, found {type(ends.why).__name__}")
    if not isinstance(given.details, dict):
        raise ScoreError(f"details: expected an object, found {type(given.details).__name__}")
    if not isinstance(given.explanation, str):
        raise ScoreError(f"explanation: expected a text, found {type(given.explanation).__name__}")
    try:
        text = json.dumps([given.details, given.explanation], allow_nan=False, ensure_ascii=False)
        text.encode()  # a lone surrogate is no text
    except (TypeError, ValueError, RecursionError) as error:
        raise ScoreError(f"expected details of JSON values: {error}") from None
    if len(text) > MAX_DETAILS:
        raise ScoreError(f"expected at most {MAX_DETAILS} characters of details, found {len(text)}")
    details, explanation = json.loads(text)
    score = None if number is None else float(number)
    return Score(score, details, explanation, range=ends, pairing=_pairing(given.pairing))


def _pairing(given: Pairing | None) -> Pairing | None:
    if given is None:
        return None
    if not isinstance(given, Pairing):
        raise ScoreError(f"pairing: expected a {Pairing.__module__}.Pairing or None, found {type(given).__name__}")
    places = [*(place for place in given.positions if place is not None), *given.not_asked]
    if not all(type(place) is int and place >= 0 for place in places):
        raise ScoreError("pairing: expected positions of calls and None, and indexes of expected calls, all from 0")
    return Pairing([*given.positions], {*given.not_asked})
