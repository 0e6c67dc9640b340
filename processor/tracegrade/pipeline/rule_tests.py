"""A rule's own tests: the traces beside it, and the expected outcomes of each.

``tests.yaml`` stands beside ``rule.yaml`` (``NAME.tests.yaml`` beside ``NAME.rule.yaml``), traces in the folder
``traces`` beside it. What is expected of a trace is keyed by evaluation name: the outcome, or of several subjects the
worst (fail, error, not_evaluable, pass); or it is the word ``not_matched``. A ``known_gap`` says why a case cannot
hold yet: it must still miss, so that a fix is noticed.

A rule needs a trace that fails it and one that passes it. A ready-made one becomes ``stable`` when it failed and passed
on traces of two dialects: until then it may say more about how one framework writes than about what agents do. A
ready-made file that says ``status: stable`` is held to that.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, RootModel, Tag

from tracegrade.assemble.settings import TracesSettings
from tracegrade.document.document import Document
from tracegrade.document.file_model import FileModel
from tracegrade.document.problem import FileError, Problem, did_you_mean
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import read
from tracegrade.extract.extract import claim
from tracegrade.model.evaluation import Evaluation, Outcome
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.pipeline.judged import Judged, JudgedTrace, evaluations_of
from tracegrade.pipeline.replay import replay_sources
from tracegrade.rule.load import builtin_rules, tests_path
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

NOT_MATCHED: Literal["not_matched"] = "not_matched"
Found = dict[str, Outcome] | Literal["not_matched"]

DIALECTS_OF_A_STABLE_RULE = 2
_NEEDED: tuple[tuple[Outcome, str], ...] = (("fail", "fails"), ("pass", "passes"))
# A rule fails on a subject if any evaluation fails, else error, else not_evaluable, else pass; the same for subjects.
_WORST_FIRST: tuple[Outcome, ...] = ("fail", "error", "not_evaluable", "pass")


class RuleTest(FileModel):
    """One entry of a tests.yaml."""

    description: str = Field(min_length=1)
    trace: Annotated[
        Annotated[str, Tag("one")] | Annotated[list[str], Field(min_length=1), Tag("several")],
        Discriminator(lambda value: "several" if isinstance(value, list) else "one"),
    ]
    expect: Annotated[
        Annotated[Literal["not_matched"], Tag("word")]
        | Annotated[dict[str, Outcome], Field(min_length=1), Tag("outcomes")],
        Discriminator(lambda value: "outcomes" if isinstance(value, dict) else "word"),
    ]
    known_gap: str | None = Field(default=None, min_length=1)

    @property
    def traces(self) -> list[str]:
        """The files, relative to ``traces``; several are one input."""
        return [self.trace] if isinstance(self.trace, str) else self.trace


class RuleTests(RootModel[Annotated[list[RuleTest], Field(min_length=1)]]):
    """A whole tests.yaml."""


@dataclass(frozen=True, slots=True)
class RuleTestResult:
    """The result of one test; ``failure`` says what is wrong, "" when the test holds.

    A rule without a failing or a passing trace has an additional result, without a test.
    """

    rule_id: str
    test: RuleTest | None
    found: Found | None
    failure: str


def run_tests(rule: Rule, rule_path: Path, settings: TracesSettings) -> Iterator[RuleTestResult]:
    """Run all tests of one rule, under the tool names that `settings` give.

    Raises:
        FileError: mistakes in its tests.yaml.
        TraceGradeError: a trace that cannot be read.
    """
    path = tests_path(rule_path)
    if not path.exists():
        promote = f"'tracegrade promote --failing {rule.id} --limit 1' makes one of the newest trace that it fails"
        yield RuleTestResult(rule.id, None, None, f"no {path.name} beside {rule_path.name}; {promote}")
        return
    proof = _Proof()
    for test, sources in _read_tests(path, rule):
        report = SourceReport()
        requests = read_sources(sources, report)
        judged = list(replay_sources(requests, settings, RuleSet([rule]), "test", tenant=rule.tried_as))
        evaluations = _evaluations(judged)
        found = _found(rule, evaluations)
        if isinstance(found, dict) and test.known_gap is None:
            proof.add(worst(found.values()), judged)
        # A test holds for the whole trace or for nothing: what was left out may be what the rule is about.
        failure = report.not_read_line or report.nothing_read or _failure(test, found, evaluations)
        yield RuleTestResult(rule.id, test, found, failure)
    ready_made = rule_path.resolve().is_relative_to(builtin_rules().resolve())
    if missing := proof.missing(rule, ready_made=ready_made):
        yield RuleTestResult(rule.id, None, None, missing)


class _Proof:
    """The dialects of the traces on which the rule failed, and on which it passed."""

    def __init__(self) -> None:
        self._dialects: dict[Outcome, set[str]] = {}

    def add(self, outcome: Outcome, judged: Iterable[Judged]) -> None:
        self._dialects.setdefault(outcome, set()).update(
            claimed[0].name
            for item in judged
            if isinstance(item, JudgedTrace)
            for span in item.trace.spans
            if (claimed := claim(span)) is not None and claimed[1] != "other"
        )

    def missing(self, rule: Rule, *, ready_made: bool) -> str:
        """The kinds of traces that the rule still needs, "" for none."""
        if lacking := [word for outcome, word in _NEEDED if outcome not in self._dialects]:
            return " and ".join(f"no trace that {word} it" for word in lacking)
        if not ready_made or rule.status != "stable" or "status" not in rule.model_fields_set:
            return ""
        few = [f"{word} it on {len(self._dialects[outcome])}" for outcome, word in _NEEDED if self._is_few(outcome)]
        return f"a stable rule fails and passes on traces of two dialects; {', '.join(few)} alone" if few else ""

    def _is_few(self, outcome: Outcome) -> bool:
        return len(self._dialects[outcome]) < DIALECTS_OF_A_STABLE_RULE


def _read_tests(path: Path, rule: Rule) -> list[tuple[RuleTest, list[str]]]:
    document = read(path)
    tests = validate(document, RuleTests).root
    names = [spec.name for spec in rule.specs]
    problems: list[Problem] = []
    for position, test in enumerate(tests):
        problems += _unknown_names(document, position, test, names)
        problems += [
            document.problem((position, "trace"), f"no file {name!r} in {path.parent / 'traces'}")
            for name in test.traces
            if not (path.parent / "traces" / name).is_file()
        ]
    if problems:
        raise FileError(problems)
    return [(test, [str(path.parent / "traces" / name) for name in test.traces]) for test in tests]


def _unknown_names(document: Document, position: int, test: RuleTest, names: list[str]) -> list[Problem]:
    expected = test.expect if isinstance(test.expect, dict) else {}
    return [
        document.problem((position, "expect", name), f"no evaluation {name!r}{did_you_mean(name, names)}")
        for name in expected
        if name not in names
    ]


def found_in(rule: Rule, judged: Iterable[Judged]) -> Found:
    """What a test would find: of each evaluation of the rule the worst outcome, or that nothing matched."""
    return _found(rule, _evaluations(judged))


def _evaluations(judged: Iterable[Judged]) -> list[Evaluation]:
    latest = {item.key: item for item in judged}  # a session is judged again with each of its traces
    return [evaluation for item in latest.values() for evaluation in evaluations_of(item)]


def _found(rule: Rule, evaluations: list[Evaluation]) -> Found:
    found: dict[str, Outcome] = {}
    for spec in rule.specs:
        if outcomes := [evaluation.outcome for evaluation in _named(evaluations, spec.name)]:
            found[spec.name] = worst(outcomes)
    return found or NOT_MATCHED


def _named(evaluations: list[Evaluation], name: str) -> Iterator[Evaluation]:
    return (evaluation for evaluation in evaluations if evaluation.evaluation == name)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The one that counts of several: fail, else error, else not_evaluable, else pass."""
    return min(outcomes, key=_WORST_FIRST.index)


def _failure(test: RuleTest, found: Found, evaluations: list[Evaluation]) -> str:
    if isinstance(test.expect, dict):
        held = isinstance(found, dict) and all(found.get(name) == outcome for name, outcome in test.expect.items())
    else:
        held = found == test.expect
    if test.known_gap is not None:
        return "the known gap is closed: remove 'known_gap'" if held else ""
    if held:
        return ""
    mismatch = f"expected {expectation_text(test.expect)}, found {expectation_text(found)}"
    return "; ".join([mismatch, *_reasons(test.expect, found, evaluations)])


def _reasons(expected: Found, found: Found, evaluations: list[Evaluation]) -> Iterator[str]:
    """Why what nobody expected was not scored: by the outcome alone, nobody can tell."""
    for name, outcome in found.items() if isinstance(found, dict) else ():
        is_expected = isinstance(expected, dict) and expected.get(name, outcome) == outcome
        if outcome in ("error", "not_evaluable") and not is_expected:
            yield next(f"{name}: {one.full_explanation}" for one in _named(evaluations, name) if one.outcome == outcome)


def expectation_text(expectation: Found) -> str:
    """``not_matched``, or ``name: outcome`` for each evaluation."""
    if isinstance(expectation, str):
        return expectation
    return ", ".join(f"{name}: {outcome}" for name, outcome in expectation.items())
