"""A rule's own tests: the traces beside it, and what the rule must say of each.

``tests.yaml`` stands beside ``rule.yaml`` (``NAME.tests.yaml`` beside ``NAME.rule.yaml``), traces in the folder
``traces`` beside it. What is expected of a trace is keyed by evaluation name: the outcome, or of several subjects the
worst (fail, error, not_evaluable, pass); or it is the word ``not_matched``. A ``known_gap`` says why a case cannot
hold yet: it must still miss, so that a fix is noticed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, RootModel, Tag

from tracegrade.assemble.settings import TracesSettings
from tracegrade.match.rule import Rule
from tracegrade.match.rule_set import RuleSet
from tracegrade.model.evaluation import Evaluation, Outcome
from tracegrade.otlp.file import read_sources
from tracegrade.pipeline.replay import replay_sources
from tracegrade.yaml_file import Document, FileError, FileModel, Problem, did_you_mean, read, validate

NOT_MATCHED: Literal["not_matched"] = "not_matched"
Found = dict[str, Outcome] | Literal["not_matched"]

# A rule fails on a subject if any evaluation fails, else error, else not_evaluable, else pass; of subjects alike.
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


class _RuleTests(RootModel[Annotated[list[RuleTest], Field(min_length=1)]]):
    """A whole tests.yaml."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one test; ``failure`` says what is wrong, "" when the test holds.

    A rule without its two kinds of traces has a result of its own for that, with no test.
    """

    rule_id: str
    test: RuleTest | None
    found: Found | None
    failure: str


def run_tests(rule: Rule, rule_path: Path, settings: TracesSettings) -> Iterator[Result]:
    """Run all tests of one rule, under the tool names that `settings` give.

    Raises:
        FileError: mistakes in its tests.yaml.
        SourceError: a trace that cannot be read.
    """
    path = _tests_path(rule_path)
    if not path.exists():
        yield Result(rule.id, None, None, f"no {path.name} beside {rule_path.name}")
        return
    outcomes: set[Outcome] = set()
    for test, sources in _read_tests(path, rule):
        found = _judge(rule, sources, settings)
        if isinstance(found, dict) and test.known_gap is None:
            outcomes.add(_worst(found.values()))
        yield Result(rule.id, test, found, _failure(test, found))
    if missing := [word for outcome, word in (("fail", "fails"), ("pass", "passes")) if outcome not in outcomes]:
        yield Result(rule.id, None, None, " and ".join(f"no trace that {word} it" for word in missing))


def _tests_path(rule_path: Path) -> Path:
    return rule_path.with_name(rule_path.name.removesuffix("rule.yaml") + "tests.yaml")


def _read_tests(path: Path, rule: Rule) -> list[tuple[RuleTest, list[str]]]:
    document = read(path)
    tests = validate(document, _RuleTests).root
    names = [name for name, _ in rule.named_specs()]
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


def _judge(rule: Rule, sources: list[str], settings: TracesSettings) -> Found:
    judged = replay_sources(read_sources(sources), settings, RuleSet([rule]), "test")
    evaluations = [evaluation for item in judged for evaluation in item.judgement.evaluations]
    found: dict[str, Outcome] = {}
    for name, _ in rule.named_specs():
        if outcomes := [evaluation.outcome for evaluation in _named(evaluations, name)]:
            found[name] = _worst(outcomes)
    return found or NOT_MATCHED


def _named(evaluations: list[Evaluation], name: str) -> Iterator[Evaluation]:
    return (evaluation for evaluation in evaluations if evaluation.evaluation == name)


def _worst(outcomes: Iterable[Outcome]) -> Outcome:
    return min(outcomes, key=_WORST_FIRST.index)


def _failure(test: RuleTest, found: Found) -> str:
    if isinstance(test.expect, dict):
        held = isinstance(found, dict) and all(found.get(name) == outcome for name, outcome in test.expect.items())
    else:
        held = found == test.expect
    if test.known_gap is not None:
        return "the known gap is closed: remove 'known_gap'" if held else ""
    return "" if held else f"expected {shown(test.expect)}, found {shown(found)}"


def shown(expectation: Found) -> str:
    """``not_matched``, or ``name: outcome`` for each evaluation."""
    if isinstance(expectation, str):
        return expectation
    return ", ".join(f"{name}: {outcome}" for name, outcome in expectation.items())
