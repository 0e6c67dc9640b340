"""``/runs/{name}``: one run, every rule beside the baseline, and the form that changes its labels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tracegrade.display import time_text
from tracegrade.history.runs.experiments import Standing, known_experiment, known_run, timeline
from tracegrade.history.runs.run_changes import label, labels_of
from tracegrade.model.tally import Tally
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.runs import Run
from tracegrade.web.addresses import run_address
from tracegrade.web.forms import form_of
from tracegrade.web.masked import seen_by
from tracegrade.web.render import page
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule of a run: its outcomes, its score beside that of the baseline, and the page of what fails it.

    ``heads`` are ``traces``, or ``sessions`` of a rule that judges those. ``is_other``: the baseline was judged by
    another content of the rule, or not by it.
    """

    rule_id: str
    tally: Tally
    score: float | None
    overall: float | None
    before: float | None
    delta: float | None
    is_other: bool
    is_in_force: bool
    heads: str


def show(
    request: Request, more: Callable[[Connection, Standing], tuple[str, dict[str, Any]]] | None = None
) -> Response:
    """One run: its score, every rule beside the baseline, what it was made of, labels.

    `more` gives another template than ``run.html``, and what that shows in addition.
    """
    tenant, name, sources = tenant_of(request), request.path_params["run"], sources_of(request)
    with sources.store() as connection:
        run = known_run(connection, tenant, name)
        found = timeline(connection, known_experiment(connection, tenant, run.experiment))
        standing = found.standing(name)
        template, added = more(connection, standing) if more is not None else ("run.html", {})
    baseline = None if standing.is_baseline else found.baseline
    return page(
        request,
        template,
        title=f"Run {name}",
        tenant=tenant,
        run=seen_by(token_of(request), run),
        standing=standing,
        baseline=baseline,
        rows=list(_rows(standing, baseline, sources.rule_set())),
        selection=_selection(run),
        labels="\n".join(f"{key}={value}" for key, value in sorted(run.labels.items())),
        may_label=token_of(request).may("run"),
        **added,
    )


async def change(request: Request) -> Response:
    """Give the run the labels of the form, a line each, in place of those it has."""
    tenant, name = tenant_of(request), request.path_params["run"]
    written = (await form_of(request)).get("labels", "")
    try:
        labels = labels_of(text for text in written.splitlines() if text.strip())
    except ValueError as error:
        raise HTTPException(400, f"Labels: {error}.") from None
    await run_in_threadpool(label, sources_of(request).config.store_url, tenant, name, labels)
    return RedirectResponse(run_address(name, tenant), 303)


def _rows(standing: Standing, baseline: Standing | None, rule_set: RuleSet) -> Iterator[RuleRow]:
    for rule_id, tally in standing.scored.rules.items():
        score = standing.scored.rule_score(rule_id)
        before = None if baseline is None else baseline.scored.rule_score(rule_id)
        rule = rule_set.rule(rule_id)
        yield RuleRow(
            rule_id,
            tally,
            score,
            standing.scored.overall.get(rule_id),
            before,
            None if score is None or before is None else round(score - before, 4),
            rule_id in standing.other_rules,
            rule is not None,
            "sessions" if rule is not None and rule.scope == "session" else "traces",
        )


def _selection(run: Run) -> str:
    """Which traces of the source were chosen, in words; "" for all."""
    return ", ".join(
        f"{name.removesuffix('_ns')} {time_text(value) + ' UTC' if name.endswith('_ns') else value}"
        for name, value in run.selection.items()
    )
