"""What ``replay`` counts, and how it shows that: by rule, by evaluation, by group, and what the gate says."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    EXIT_FAILED,
    Styled,
    outcome_text,
    print_line,
    print_table,
    styled,
)
from tracegrade.cli.reports import interval_text, rate_text
from tracegrade.display import count, json_text
from tracegrade.model.evaluation import OUTCOMES
from tracegrade.model.tally import NO_RESULTS, Tally
from tracegrade.pipeline.gate import Counted, RuleVerdict, Verdict, Word

if TYPE_CHECKING:
    from tracegrade.rule.rule_set import RuleSet


AddUnits: TypeAlias = Callable[[tuple[Any, ...]], None]


class RuleOutcome(NamedTuple):
    """The outcome of one (subject, rule) pair; the summary counts by ``group``; ``chance`` is that of being kept."""

    rule_id: str
    outcome: str
    chance: float
    complete: bool
    group: str


class Replayed(NamedTuple):
    """What is shown of one judged trace or session; ``shown`` depends on the format."""

    is_trace: bool
    complete: bool
    rule_outcomes: list[tuple[Any, ...]]  # of `RuleOutcome`
    outcomes: list[tuple[str, str, str | None, str, bool]]  # rule id, evaluation, case, outcome, complete
    shown: list[Any]
    units: tuple[Any, ...] | None = None  # where something is compared


class Summary:
    """What is counted: traces, and outcomes by rule, by group and by evaluation.

    ``add_units`` takes what a comparison needs, None where nothing is compared.
    """

    def __init__(self, rule_set: "RuleSet", by: str, add_units: AddUnits | None = None) -> None:
        self.rule_set = rule_set
        self.by = by
        self._add_units = add_units
        self.traces = 0
        self.incomplete = 0
        self.by_rule = dict.fromkeys((rule.id for rule in rule_set.rules), NO_RESULTS)
        self.by_group: dict[str, Tally] = {}
        self.by_evaluation: dict[str, dict[str, Tally]] = {}
        self._met_cases: dict[str, set[str]] = {}
        self._counts_incomplete = {rule.id for rule in rule_set.rules if rule.incomplete == "count"}

    def add(self, replayed: Replayed) -> None:
        """Count one more trace or session."""
        if replayed.is_trace:
            self.traces += 1
            self.incomplete += not replayed.complete
        for fields in replayed.rule_outcomes:
            pair = RuleOutcome(*fields)
            one = self._one(pair.rule_id, pair.outcome, pair.complete, pair.chance)
            self.by_rule[pair.rule_id] = self.by_rule[pair.rule_id].plus(one)
            self.by_group[pair.group] = self.by_group.get(pair.group, NO_RESULTS).plus(one)
        if self._add_units is not None and replayed.units is not None:
            self._add_units(replayed.units)
        for rule_id, name, case, outcome, complete in replayed.outcomes:
            if case is not None:
                self._met_cases.setdefault(rule_id, set()).add(case)
            by_name = self.by_evaluation.setdefault(rule_id, {})
            by_name[name] = by_name.get(name, NO_RESULTS).plus(self._one(rule_id, outcome, complete, 1.0))

    def _one(self, rule_id: str, outcome: Any, complete: bool, chance: float) -> Tally:
        return Tally.one(outcome, chance).counted(complete or rule_id in self._counts_incomplete)

    def counted(self) -> list[Counted]:
        """Every rule with its results."""
        met = self._met_cases
        return [Counted.of(rule, self.by_rule[rule.id], met_cases=met.get(rule.id, ())) for rule in self.rule_set.rules]


def print_summary(summary: Summary, verdict: Verdict, failed: list[tuple[Any, ...]], failures: int) -> None:
    """Print the tables of `summary`, and of ``failed`` as many as are listed of ``failures``."""
    title = f"{count(summary.traces, 'trace')} judged, {summary.incomplete} of them incomplete"
    is_empty = not any(summary.by_group.values())
    if is_empty and verdict.word == "not_gated":
        print_line(
            f"{count(summary.traces, 'trace')} read, no rule matched any of them ('tracegrade why' names the clauses)"
        )
        return
    if summary.by != "rule":
        print_table(title, [summary.by, *_NUMBERS], _group_rows(summary), whole=_WHOLE, spare=_SPARE_NUMBERS)
        title = ""
    if summary.by == "rule" or verdict.word != "not_gated":
        print_rules(title, verdict, summary.by_evaluation)
    if failed:
        print_table(
            "What failed",
            ["outcome", "evaluation", "score", "agent", "trace", "why"],
            [[outcome_text(outcome), *rest] for outcome, *rest in failed],
            whole=["outcome", "score", "trace"],
            spare=["agent"],
        )
        if failures > len(failed):
            print_line(f"... and {failures - len(failed)} more; --format json prints all")


def print_rules(title: str, verdict: Verdict, by_evaluation: Mapping[str, Mapping[str, Tally]]) -> None:
    """Print a row for each rule, and below it one for each of its evaluations where there are several."""
    gated = ["gate"] if verdict.word != "not_gated" else []
    columns = ["rule", *_NUMBERS, "level", "status", *gated]
    rows = [row[: len(columns)] for row in _rule_rows(verdict, by_evaluation)]
    print_table(title, columns, rows, whole=_WHOLE, spare=["status", "level", *_SPARE_NUMBERS])


_NUMBERS = [*OUTCOMES, "incomplete", "results", "pass rate", "95 % interval"]
_SPARE_NUMBERS = ["incomplete", "error", "not_evaluable", "pass", "fail"]
_WHOLE = ["results", "pass rate", "95 % interval"]


def _group_rows(summary: Summary) -> Iterator[list[object]]:
    for group, tally in sorted(summary.by_group.items()):
        yield [group or "(none)", *_numbers(tally)]


def _rule_rows(verdict: Verdict, by_evaluation: Mapping[str, Mapping[str, Tally]]) -> Iterator[list[object]]:
    for rule in verdict.rules:
        counted = rule.counted
        yield [counted.rule_id, *_numbers(counted.tally), counted.level, counted.status, _gate_text(rule)]
        evaluations = by_evaluation.get(counted.rule_id, {})
        for name, tally in sorted(evaluations.items()) if len(evaluations) > 1 else ():
            yield [f"  {name}", *_numbers(tally), "", "", ""]


def _numbers(tally: Tally) -> list[object]:
    outcomes = (tally.passed, tally.failed, tally.not_evaluable, tally.errors, tally.incomplete)
    return [*(number or None for number in outcomes), tally.judged, rate_text(tally), interval_text(tally)]


def _gate_text(rule: RuleVerdict) -> Styled:
    sign, style = _SIGNS[rule.word]
    text = "" if rule.word == "not_gated" else f" {rule.word.replace('_', ' ')}"
    reason = f"{':' if text else ''} {rule.reason}" if rule.reason else ""
    return styled(f"{sign}{text}{reason}", style)


_SIGNS: dict[Word, tuple[str, str]] = {
    "pass": ("✓", "green"),
    "fail": ("✗", "bold red"),
    "cannot_tell": ("?", "yellow"),
    "not_gated": ("–", ""),
}
EXITS: dict[Word, int] = {"pass": 0, "not_gated": 0, "fail": EXIT_FAILED, "cannot_tell": EXIT_CANNOT_TELL}


def worse_exit(one: int, other: int) -> int:
    """The exit code of two decisions: a fail counts first, then what cannot be told."""
    return min(one, other, key=(EXIT_FAILED, EXIT_CANNOT_TELL, 0).index)


def print_gate(verdict: Verdict, output_format: str) -> None:
    """What the gate said, on standard error; nothing without one."""
    if verdict.word == "not_gated":
        return
    if output_format == "json":
        for rule in verdict.rules:
            print_line(json_text(rule.to_json()), err=True)
        print_line(json_text({"gate": verdict.word, "reasons": verdict.reasons}), err=True)
        return
    print_line(gate_line(verdict), err=True)


def gate_line(verdict: Verdict) -> str:
    """The decision and its reasons in one line."""
    return f"{_GATE_WORDS[verdict.word]}: {'. '.join(verdict.reasons)}."


_GATE_WORDS = {"pass": "Gate passed", "fail": "Gate failed", "cannot_tell": "Cannot tell"}
