"""A stored run of a suite, case by case, and hints where a common mistake shows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from tracegrade.model.json_value import JsonValue
from tracegrade.rule.prices import Price
from tracegrade.store.runs import Run
from tracegrade.suites.models.asking import FELL_BACK
from tracegrade.suites.runs.results import CaseResult, ModelSummary, results_of_run, summary_of

MOST_RESULTS = 20_000
"""A run with more results is not read for a page: that would take seconds."""

_NEARLY_ALL, _NEARLY_NONE = 0.95, 0.05
_NUMBERS = re.compile(r"(\d+)")

WRONG_VALUES = (
    "The right tools are called, and hardly any parameter is as expected. The model may make values up, or the cases "
    "expect values that models write in another way: look at expected beside actual, and let scoring_config compare "
    "them less strictly where another spelling is right, too."
)
ONLY_WORDS = (
    "Nothing is called where a tool is expected: with tool_choice auto, this model answers in words. Run the suite "
    "with tool_choice required."
)
ONLY_WORDS_AFTER_ALL = (
    "Nothing is called where a tool is expected: this model refuses tool_choice required, was asked with auto, and "
    "answers in words. A system prompt can say that tools are always to be used."
)


@dataclass(frozen=True, slots=True)
class CaseGroup:
    """All runs of one case by one model, in order of their repetition; ``summary`` has the averages of these alone."""

    case: str
    results: Sequence[CaseResult]
    summary: ModelSummary

    @property
    def prompt(self) -> str:
        """What a user says in it."""
        return self.results[0].prompt

    @property
    def expected(self) -> dict[str, JsonValue] | None:
        """The item that judged it; None where no trace says it."""
        return next((item.expected for item in self.results if item.expected is not None), None)

    @property
    def is_flaky(self) -> bool:
        """Whether it both passed and failed."""
        return bool(self.summary.flaky)

    @property
    def is_passed(self) -> bool:
        """Whether every run of it passed."""
        return self.summary.outcomes["pass"] == len(self.results)

    @property
    def ends(self) -> list[tuple[CaseResult, int]]:
        """What came of it: one result of each kind (outcome, calls, problem), and how many are like it."""
        found: dict[str, list[CaseResult]] = {}
        for item in self.results:
            problem = item.explanation if item.outcome == "error" else ""
            found.setdefault(repr((item.outcome, item.calls, problem)), []).append(item)
        return [(items[0], len(items)) for items in found.values()]


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """What is stored of a run of a suite with one model: its cases, their averages, and hints in whole sentences."""

    cases: Sequence[CaseGroup]
    summary: ModelSummary
    hints: Sequence[str]


def is_suite_run(run: Run) -> bool:
    """Whether `run` is of a suite that was run with a model."""
    return run.selection.get("suite") in run.rules


def suite_run_of(connection: Connection, run: Run, price: Price | None) -> SuiteRun | None:
    """What came of the cases of `run`; None when nothing of them is stored.

    Args:
        connection: to the store.
        run: one that `is_suite_run`, with at most `MOST_RESULTS` traces.
        price: what tokens of its model cost, if that is known.
    """
    results = results_of_run(connection, run, price)
    if not results:
        return None
    by_case: dict[str, list[CaseResult]] = {}
    for item in results:
        by_case.setdefault(item.case, []).append(item)
    groups = [
        CaseGroup(case, found, summary_of(run.name, found[0].model, found))
        for case, found in sorted(by_case.items(), key=lambda pair: in_order(pair[0]))
    ]
    summary = summary_of(run.name, results[0].model, results)
    return SuiteRun(groups, summary, list(_hints(results, summary, run.selection.get("tool_choice"))))


def in_order(case: str) -> list[tuple[int, str]]:
    """Sorts ``case-10`` after ``case-9``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBERS.split(case)]


def _hints(results: Sequence[CaseResult], summary: ModelSummary, tool_choice: object) -> Iterator[str]:
    """Source: "Common Issues" of the tool calling evaluation of Maheidem/llm-benchmark-studio."""
    selection, params = summary.tool_selection, summary.param_accuracy
    if selection is not None and params is not None and selection >= _NEARLY_ALL and params <= _NEARLY_NONE:
        yield WRONG_VALUES
    asked = [
        item
        for item in results
        if item.outcome in ("pass", "fail") and item.expected is not None and item.expected.get("expected_tool")
    ]
    if asked and not any(item.calls for item in asked):
        if tool_choice == "auto":
            yield ONLY_WORDS
        elif all(FELL_BACK in item.notes for item in asked):
            yield ONLY_WORDS_AFTER_ALL
