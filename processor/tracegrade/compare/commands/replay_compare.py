"""What is judged now against baselines: for the gate of ``replay`` and ``check``, and for ``replay --compare``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracegrade.cli.output import progress
from tracegrade.compare.commands.compare_reports import print_report
from tracegrade.compare.compare import Wanted, compare
from tracegrade.compare.gate.against import against, compared
from tracegrade.compare.gate.baselines import Baselines
from tracegrade.compare.gate.results import JudgedResults, JudgedUnits, judged_units
from tracegrade.compare.sides import Side
from tracegrade.pipeline.gate import Verdict, judged_by
from tracegrade.queries.times import time_of
from tracegrade.rule.gate import MARGIN
from tracegrade.rule.prices import cost_by
from tracegrade.store.open import reading_store
from tracegrade.store.result_filter import ResultFilter

if TYPE_CHECKING:
    from tracegrade.compare.comparison import Comparison
    from tracegrade.config import Config
    from tracegrade.history.runs.recorded_run import RecordedRun
    from tracegrade.pipeline.gate import Bounds, Counted
    from tracegrade.pipeline.replay import Selection
    from tracegrade.rule.rule_set import RuleSet


class Comparing:
    """Takes what is judged, and then says how it stands against baselines."""

    units = staticmethod(judged_units)

    def __init__(
        self, config: "Config", rule_set: "RuleSet", bounds: "Bounds", base: str | None, selection: "Selection"
    ) -> None:
        """Find what the command line names, so that a wrong name is said before anything is judged.

        Args:
            config: the settings.
            rule_set: the rules that judge.
            bounds: what the command line requires.
            base: what is compared with, beside the gate; None for nothing.
            selection: of what is judged; its service and tenant are those of stored results, too.

        Raises:
            TraceGradeError: a baseline that the command line names is not there, or cannot be read.
        """
        shared = ResultFilter(service=selection.service, tenant=selection.tenant)
        baselines = Baselines(config.store_url, rule_set, time_of, shared=shared, progress=progress)
        self._config = config
        self._tenant = selection.tenant
        self._bounds = bounds
        self._baseline_of = baselines.of_gate(bounds)
        self._base = None if base is None else baselines.asked(base)
        self._judged = JudgedResults(rule_set)

    def add(self, units: tuple[Any, ...]) -> None:
        """Take the units of one more trace or session."""
        self._judged.add(JudgedUnits(*units))

    @property
    def is_shown(self) -> bool:
        """Whether a comparison is printed, in place of a summary."""
        return self._base is not None

    def verdict(self, counted: "Sequence[Counted]") -> Verdict:
        """The decision of the gate."""
        found = against(self._bounds, counted, self._judged.results, self._baseline_of)
        return judged_by(self._bounds, counted, found)

    def print_comparison(self, text: str, run: "RecordedRun | None", output_format: str, unread: str) -> int:
        """Print how what was judged, from `text`, differs; what was stored as a `run` is compared in the store.

        `unread` says what of it could not be read, "" where everything was.

        Returns:
            The exit code.
        """
        found = replace(self._comparison(text, run), unread=unread)
        print_report(output_format, found, self._config.alerts.links)
        return found.exit_code

    def _comparison(self, text: str, run: "RecordedRun | None") -> "Comparison":
        base, bounds = self._base, self._bounds
        assert base is not None, "nothing was asked to be compared with"
        if run is None or base.side is None:
            return compared(base, self._judged.results, text, bounds)
        prices = self._config.traces.prices
        wanted = Wanted(
            MARGIN if bounds.margin is None else bounds.margin,
            bounds.allow_within_margin,
            cost_of=cost_by(prices),
        )
        with reading_store(self._config.store_url, self._tenant) as connection:
            return compare(connection, base.side, Side(run.name, ResultFilter(run=run.name)), wanted, progress)
