"""The options of a gate: of ``replay``, ``check`` and ``gate``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracegrade.cli.options import together
from tracegrade.document.problem import did_you_mean
from tracegrade.model.tally import Tally
from tracegrade.pipeline.gate import LEVELS, MIN_RESULTS, Bounds, Counted, Held, held_by, is_of_level

if TYPE_CHECKING:
    from tracegrade.rule.rule import Level
    from tracegrade.rule.rule_set import RuleSet

R = TypeVar("R")


class _LeastRate(click.ParamType[tuple["Level | None", float]]):
    """``0.95``, or ``high=0.99`` for rules from that level on."""

    name = "pass_rate"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> "tuple[Level | None, float]":
        if isinstance(value, tuple):
            return value
        before, equals, rate = str(value).rpartition("=")
        level = next((known for known in LEVELS if known == before), None)
        if equals and level is None:
            self.fail(f"{before!r} is no level; expected one of {', '.join(LEVELS)}")
        return level, click.FloatRange(0, 1)(rate, param, ctx)


_options = together(
    click.option(
        "--fail-under",
        multiple=True,
        type=_LeastRate(),
        metavar="[LEVEL=]PASS_RATE",
        help="A gate: exit 1 when the pass rate of any stable rule is below this, else 3 when any has too few results. "
        "high=0.99 is for rules of level high and above. In place of 'at_least' in rule files.",
    ),
    click.option(
        "--fail-under-overall",
        type=click.FloatRange(0, 1),
        metavar="PASS_RATE",
        help="A gate: exit 1 when the pass rate over all rules together is below this, 3 when nothing could be judged.",
    ),
    click.option(
        "--min-results",
        type=click.IntRange(min=1),
        help=f"How many results a rule needs for its pass rate to be judged.  [default: {MIN_RESULTS}]",
    ),
    click.option(
        "--require",
        "required",
        multiple=True,
        metavar="RULE",
        help="Exit 3 when this rule matched nothing, or when no run met one of its cases.",
    ),
    click.option("--level", type=click.Choice(LEVELS), help="A gate counts rules of this level and above."),
    click.option(
        "--baseline",
        metavar="NAME|FILE|SIDE",
        help="No stable rule may be worse than in this baseline, as 'compare' decides: a saved one, its file, a run or "
        "another side of 'compare'. In place of 'not_worse_than' in rule files.",
    ),
    click.option(
        "--margin",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="How far a pass rate may fall below the baseline.  [default: 0.02, which is 2 points]",
    ),
    click.option(
        "--allow-within-margin", is_flag=True, help="Do not fail for a fall that is certainly smaller than the margin."
    ),
    click.option("--no-gate", is_flag=True, help="Ignore 'gate' in rule files."),
)
_NAMES = (
    "fail_under",
    "fail_under_overall",
    "min_results",
    "required",
    "level",
    "baseline",
    "margin",
    "allow_within_margin",
    "no_gate",
)


@dataclass(frozen=True, slots=True)
class AskedGate:
    """A gate as it was asked for on the command line."""

    fail_under: "Sequence[tuple[Level | None, float]]"
    fail_under_overall: float | None
    min_results: int | None
    required: Sequence[str]
    level: "Level | None"
    baseline: str | None
    margin: float | None
    allow_within_margin: bool
    no_gate: bool

    def bounds(self, rule_set: "RuleSet", *, compares: bool = False, no_fails: bool = False) -> Bounds:
        """What is required of these rules by the command line.

        Args:
            rule_set: the rules.
            compares: it asks for a comparison beside the gate.
            no_fails: stable rules of which nothing is required, in their files or here, may not fail.

        Raises:
            UsageError: the gate could not be obeyed: something is required of no rule, or of one that never counts.
        """
        found = Bounds(
            each=next((rate for level, rate in reversed(self.fail_under) if level is None), None),
            overall=self.fail_under_overall,
            min_results=self.min_results or MIN_RESULTS,
            level=self.level or LEVELS[0],
            required=frozenset(self.required),
            each_from={level: rate for level, rate in self.fail_under if level is not None},
            baseline=self.baseline,
            margin=self.margin,
            allow_within_margin=self.allow_within_margin,
            rule_files=not self.no_gate,
            no_fails=no_fails and not (self.no_gate or self._requires),
        )
        self._check_needed(found, [held_by(found, Counted.of(rule, Tally())) for rule in rule_set.rules], compares)
        for rule_id in self.required:
            _check_required(found, rule_set, rule_id)
        return found

    @property
    def _requires(self) -> bool:
        """Whether an option says what is enough."""
        return bool(self.fail_under) or self.fail_under_overall is not None or self.baseline is not None

    def _check_needed(self, bounds: Bounds, held: Sequence[Held], compares: bool) -> None:
        is_gate = bounds.overall is not None or any(of.is_gate for of in held)
        has_numbers = bounds.overall is not None or any(of.asks_numbers for of in held)
        of_rules = self.level is not None or self.required
        if (of_rules and not is_gate) or (self.min_results is not None and not has_numbers):
            raise click.UsageError(
                "--min-results, --require and --level need a gate: --fail-under, --fail-under-overall, --baseline, or "
                "'gate' in a rule file"
            )
        compares = compares or any(of.not_worse_than is not None for of in held)
        if not compares and (self.margin is not None or self.allow_within_margin):
            raise click.UsageError(
                "--margin and --allow-within-margin are of a comparison: --baseline, or 'not_worse_than' in a rule file"
            )


def _check_required(bounds: Bounds, rule_set: "RuleSet", rule_id: str) -> None:
    rule = rule_set.rule(rule_id)
    if rule is None:
        hint = did_you_mean(rule_id, [known.id for known in rule_set.rules])
        raise click.UsageError(f"--require: no rule {rule_id!r} here{hint}")
    if not held_by(bounds, Counted.of(rule, Tally())).is_gate:
        raise click.UsageError(f"--require needs --fail-under, or a 'gate' in the file of {rule_id}")
    if rule.status != "stable":
        raise click.UsageError(f"--require: {rule_id} is {rule.status}, and a gate counts only stable rules")
    if not is_of_level(rule.level, bounds.level):
        raise click.UsageError(f"--require: {rule_id} is of level {rule.level}, below --level {bounds.level}")


def gate_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options of a gate; the command is called with ``gate``, the `AskedGate`."""

    @wraps(function)
    def wrapper(**arguments: Any) -> R:
        asked = AskedGate(**{name: arguments.pop(name) for name in _NAMES})
        return function(gate=asked, **arguments)

    return _options(wrapper)
