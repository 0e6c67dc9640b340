"""Recorded traces as tests beside their rule: which are new, which are there already, which cannot be."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from tracegrade.assemble.settings import TracesSettings
from tracegrade.history.promote.chosen import recorded, traces_with
from tracegrade.history.promote.promotion import How, Promotion, promotion
from tracegrade.history.promote.rule_test_files import RuleTestFiles
from tracegrade.model.errors import NotPossible
from tracegrade.model.evaluation import Outcome
from tracegrade.rule.rule import Rule
from tracegrade.store.result_filter import ResultFilter

_TRIED = 20  # traces of the other outcome, of which the first that can be promoted is taken


@dataclass(frozen=True, slots=True)
class Item:
    """What became of one trace.

    ``promotion`` is None of one that is there already, or cannot be a test; ``message`` says so. ``balances`` is the
    outcome for whose sake it was added, "" of one that was asked for.
    """

    id: str
    promotion: Promotion | None
    message: str = ""
    balances: str = ""
    is_there: bool = False


@dataclass(frozen=True, slots=True)
class Promoter:
    """What the tests of one rule are made with; with a `tenant`, of traces of that one alone."""

    connection: Connection
    run: str
    rule: Rule
    settings: TracesSettings
    how: How
    tenant: str | None = None

    def add(self, files: RuleTestFiles, trace_ids: Sequence[bytes], *, lenient: bool = False) -> list[Item]:
        """Tests of these traces, added to `files`.

        Args:
            files: of the rule.
            trace_ids: of traces, or of sessions for a rule over sessions.
            lenient: whether a trace that cannot be a test, or that the rule no longer fails, is left out and named.

        Raises:
            NotPossible: one cannot be a test, unless `lenient`.
        """
        items: list[Item] = []
        done: set[str] = set()
        for trace_id in trace_ids:
            try:
                item = self._item(files, trace_id, done)
                if lenient and item.promotion is not None and item.promotion.outcome != "fail":
                    item = Item(item.id, None, f"rule {self.rule.id} as it is now does not fail it")
            except NotPossible as error:
                if not lenient:
                    raise
                item = Item(trace_id.hex(), None, str(error))
            if item.id in done:
                continue
            done.add(item.id)
            items.append(item)
            if item.promotion is not None:
                files.add(item.promotion)
        return items

    def balance(self, files: RuleTestFiles) -> list[Item]:
        """A test for each outcome that the tests of the rule lack, of a trace in the store; added to `files`."""
        items = []
        for outcome in files.lacks():
            if (item := self._of_outcome(files, outcome)) is not None:
                assert item.promotion is not None
                files.add(item.promotion)
                items.append(item)
        return items

    def _item(self, files: RuleTestFiles, trace_id: bytes, done: set[str]) -> Item:
        found = recorded(self.connection, trace_id, self.run, self.rule, self.tenant)
        names = [found.id, *(trace.trace_id.hex() for trace in found.traces)]
        there = next((line for name in names if (line := files.has(name)) is not None), None)
        if found.id in done:
            return Item(found.id, None)
        if there is not None:
            return Item(found.id, None, f"is a test already: {files.path}:{there}", is_there=True)
        return Item(found.id, promotion(found, self.rule, self.settings, self.how))

    def _of_outcome(self, files: RuleTestFiles, outcome: Outcome) -> Item | None:
        how = How(self.how.redacts, self.how.keep)
        chosen = ResultFilter(rule=self.rule.id, outcome=outcome, run=self.run, tenant=self.tenant)
        for trace_id in traces_with(self.connection, chosen, _TRIED):
            try:
                found = recorded(self.connection, trace_id, self.run, self.rule, self.tenant)
                if files.has(found.id) is not None:
                    continue
                made = promotion(found, self.rule, self.settings, how)
            except NotPossible:  # nobody asked for this one
                continue
            if made.outcome == outcome:
                return Item(found.id, made, balances=outcome)
        return None
