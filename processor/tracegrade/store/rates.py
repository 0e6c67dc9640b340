"""How often rules and evaluations pass, from the sums by minute: as quick over a month as over an hour."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from tracegrade.store.read import Filter
from tracegrade.store.schema import MINUTE_NS, WHOLE_RULE, counts, series


@dataclass(frozen=True, slots=True)
class Rate:
    """Outcomes of one rule (``evaluation`` is "") or of one of its evaluations, at one service of one tenant.

    Of complete traces only, unless incomplete ones were asked for; ``incomplete`` counts those left out.
    """

    tenant: str
    rule_id: str
    evaluation: str
    service: str
    passed: int
    failed: int
    not_evaluable: int
    errors: int
    incomplete: int
    score_sum: float

    @property
    def judged(self) -> int:
        """Passes and fails."""
        return self.passed + self.failed

    @property
    def pass_rate(self) -> float | None:
        """Passes of all that was judged; None when nothing was: that is not 0."""
        return self.passed / self.judged if self.judged else None


def rates(
    connection: Connection, wanted: Filter, *, evaluation: str | None = WHOLE_RULE, count_incomplete: bool = False
) -> list[Rate]:
    """Outcomes by tenant, rule, evaluation and service, in that order.

    Args:
        connection: on the store.
        wanted: which series; its times are widened to whole minutes of the traces' last spans. ``trace_id`` and
            ``outcome`` are not looked at.
        evaluation: an evaluation's name, ``WHOLE_RULE`` for rules as a whole, None for both.
        count_incomplete: count incomplete traces as well.
    """
    groups = (series.c.tenant, series.c.rule_id, series.c.evaluation, series.c.service, counts.c.complete)
    sums = [
        func.sum(column)
        for column in (counts.c.passed, counts.c.failed, counts.c.not_evaluable, counts.c.errors, counts.c.score_sum)
    ]
    query = select(*groups, *sums).join(counts, counts.c.series == series.c.number).group_by(*groups).order_by(*groups)
    for column, value in (
        (series.c.run, wanted.run),
        (series.c.tenant, wanted.tenant),
        (series.c.rule_id, wanted.rule),
        (series.c.service, wanted.service),
        (series.c.agent, wanted.agent),
        (series.c.evaluation, evaluation),
    ):
        if value is not None:
            query = query.where(column == value)
    if wanted.since_ns is not None:
        query = query.where(counts.c.minute >= wanted.since_ns // MINUTE_NS)
    if wanted.until_ns is not None:
        query = query.where(counts.c.minute <= (wanted.until_ns - 1) // MINUTE_NS)
    found: dict[tuple[str, str, str, str], Rate] = {}
    for (
        tenant,
        rule_id,
        name,
        service,
        complete,
        passed,
        failed,
        not_evaluable,
        errors,
        score_sum,
    ) in connection.execute(query):
        key = (tenant, rule_id, name, service)
        so_far = found.get(key, Rate(*key, 0, 0, 0, 0, 0, 0.0))
        left_out = 0 if complete or count_incomplete else passed + failed + not_evaluable + errors
        kept = 0 if left_out else 1
        found[key] = Rate(
            *key,
            passed=so_far.passed + kept * passed,
            failed=so_far.failed + kept * failed,
            not_evaluable=so_far.not_evaluable + kept * not_evaluable,
            errors=so_far.errors + kept * errors,
            incomplete=so_far.incomplete + left_out,
            score_sum=so_far.score_sum + kept * score_sum,
        )
    return list(found.values())
