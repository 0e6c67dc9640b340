"""What was judged live: the other side of a backtest without rules of another folder or revision."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, select

from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_result
from tracegrade.compare.backtest.changes import Example, RuleChange
from tracegrade.compare.backtest.judged import RuleResult, explanation_of
from tracegrade.store.schema import DECISION_KINDS, LIVE, OUTCOMES, SUBJECT_KINDS, WHOLE_RULE, series, traces


class LiveResults:
    """What the rules of these ids said of traces live, in whichever form they had then."""

    def __init__(self, connection: Connection, rule_ids: Collection[str]) -> None:
        """Look up the series of these rules."""
        self._connection = connection
        chosen = (series.c.run == LIVE, series.c.evaluation == WHOLE_RULE, series.c.rule_id.in_(rule_ids))
        self._series: Mapping[int, Any] = {row.number: row for row in connection.execute(select(series).where(*chosen))}

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes of the forms that these rules had, each with the id of its rule."""
        return {row.rule_hash: row.rule_id for row in self._series.values()}

    def results_of(self, decisions: str) -> Iterator[RuleResult]:
        """What was said of one trace; `decisions` are its rows of that view, as JSON."""
        for number, kind, subject, decided, outcome, *_ in orjson.loads(decisions):
            if (found := self._series.get(number)) is not None:
                word = DECISION_KINDS[decided] if outcome is None else OUTCOMES[outcome]
                place = (found.agent, found.service, found.release)
                yield RuleResult(found.rule_id, kind, subject, *place, word, found.probability)

    def explanation(self, change: RuleChange, example: Example) -> str:
        """Why the subject of an example failed or could not be judged; "" when that cannot be read."""
        query = select(traces.c.judged).where(traces.c.number == example.number)
        packed = self._connection.execute(query).scalar()
        try:
            decisions = [] if packed is None else unpack_result(packed, b"").decisions
        except Unreadable:  # damaged, or of another version
            return ""
        own = (change.rule.id, SUBJECT_KINDS[example.kind], example.subject)
        found = (item for item in decisions if (item.pair.rule_id, item.pair.subject.kind, item.pair.subject.id) == own)
        return next(map(explanation_of, found), "")
