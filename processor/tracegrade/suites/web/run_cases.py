"""The cases of a run of a suite: all on the page of the run, and one by itself with what was said."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.evaluate.evidence import Evidence
from tracegrade.history.runs.experiments import Standing, known_run
from tracegrade.rule.case import DEFAULT_EVALUATOR
from tracegrade.rule.evaluation_spec import read_item
from tracegrade.store.read import stored_traces
from tracegrade.store.runs import Run
from tracegrade.suites.runs.cases import MOST_RESULTS, CaseGroup, SuiteRun, is_suite_run, suite_run_of
from tracegrade.suites.runs.exchange import Request as ModelRequest
from tracegrade.suites.runs.exchange import exchange
from tracegrade.suites.runs.results import CHAIN_NUMBERS, CaseResult
from tracegrade.suites.web.evals import price_of
from tracegrade.web.alignment import Alignment, aligned
from tracegrade.web.masked import seen_by
from tracegrade.web.pages import runs
from tracegrade.web.render import page
from tracegrade.web.rights import tenant_of, token_of
from tracegrade.web.sources import sources_of

_MOST_CASES = 200
_MOST_REPETITIONS = 20

CHOICES = {
    "": "all",
    "failed": "not passed",
    "flaky": "flaky",
}
"""Which cases are shown, by the word in the address."""


@dataclass(frozen=True, slots=True)
class ShownCases:
    """The cases that the page of a run shows; ``hidden`` more fit. ``found`` is None where none can be shown."""

    found: SuiteRun | None
    too_many: bool = False
    chosen: str = ""
    shown: Sequence[CaseGroup] = ()
    hidden: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    shows_values: bool = False


@dataclass(frozen=True, slots=True)
class Repetition:
    """One run of the case that is shown: expected calls beside actual ones, and what was said."""

    result: CaseResult
    alignment: Alignment | None
    requests: Sequence[ModelRequest]


def show_run(request: Request) -> Response:
    """The page of a run, with its cases if it is of a suite; with ``case`` in the address, one of these cases."""
    if case := request.query_params.get("case"):
        return show_case(request, tenant_of(request), request.path_params["run"], case)

    def more(connection: Connection, standing: Standing) -> tuple[str, dict[str, Any]]:
        cases = shown_cases(connection, request, standing.scored.run, standing.scored.traces)
        return ("run.html", {}) if cases is None else ("run_of_suite.html", {"suite": cases})

    return runs.show(request, more)


def shown_cases(connection: Connection, request: Request, run: Run, traces: int) -> ShownCases | None:
    """The cases of `run`, which has so many traces, as its address asks for them; None when it is not of a suite.

    Raises:
        HTTPException: 400, the address asks for cases of an unknown kind.
    """
    if not is_suite_run(run):
        return None
    chosen = request.query_params.get("cases", "")
    if chosen not in CHOICES:
        raise HTTPException(400, f"cases: expected one of {', '.join(filter(None, CHOICES))}, found {chosen!r}")
    if traces > MOST_RESULTS:
        return ShownCases(None, too_many=True)
    found = suite_run_of(connection, run, price_of(sources_of(request).config, run))
    if found is None:
        return ShownCases(None)
    kinds: dict[str, list[CaseGroup]] = {
        "": list(found.cases),
        "failed": [group for group in found.cases if not group.is_passed],
        "flaky": [group for group in found.cases if group.is_flaky],
    }
    fitting = kinds[chosen]
    shown = seen_by(token_of(request), fitting if "all" in request.query_params else fitting[:_MOST_CASES])
    return ShownCases(
        found,
        chosen=chosen,
        shown=shown,
        hidden=len(fitting) - len(shown),
        counts={kind: len(groups) for kind, groups in kinds.items()},
        shows_values=token_of(request).may("read-values"),
    )


def show_case(request: Request, tenant: str, name: str, case: str) -> Response:
    """One case of a run: each repetition with expected beside actual, and the raw exchange.

    Raises:
        HTTPException: 404, the run has no such case.
        NotFound: there is no such run.
    """
    sources = sources_of(request)
    shows_values = token_of(request).may("read-values")
    with sources.store() as connection:
        run = known_run(connection, tenant, name)
        found = suite_run_of(connection, run, price_of(sources.config, run)) if is_suite_run(run) else None
        places = [group.case for group in found.cases] if found is not None else []
        if found is None or case not in places:
            raise HTTPException(404, f"Run {name} has no result of a case {case!r}, or retention has deleted it.")
        place = places.index(case)
        group = seen_by(token_of(request), found.cases[place])
        shown = group.results if "all" in request.query_params else group.results[:_MOST_REPETITIONS]
        repetitions = [_repetition(connection, run, item, shows_values) for item in shown]
    return page(
        request,
        "run_case.html",
        title=f"{case} of run {name}",
        tenant=tenant,
        run=run,
        group=group,
        repetitions=repetitions,
        hidden=len(group.results) - len(shown),
        before=places[place - 1] if place else None,
        after=places[place + 1] if place + 1 < len(places) else None,
        chain_numbers=CHAIN_NUMBERS,
        shows_values=shows_values,
    )


def _repetition(connection: Connection, run: Run, item: CaseResult, shows_values: bool) -> Repetition:
    found = stored_traces(connection, bytes.fromhex(item.trace_id), run=run.name)
    stored = next((trace for trace in found if trace.trace.tenant == run.tenant), None)
    if stored is None or not shows_values:  # deleted since it was listed, or not for this caller
        return Repetition(item, None, ())
    return Repetition(item, _alignment(item, Evidence(stored.tool_calls)), exchange(stored))


def _alignment(item: CaseResult, evidence: Evidence) -> Alignment | None:
    if item.expected is None or item.outcome == "error":
        return None
    try:
        spec = read_item({"evaluator": DEFAULT_EVALUATOR, **item.expected})
    except (ValidationError, ValueError):  # of an evaluator that is no longer installed
        return None
    return aligned(spec, evidence, item.pairing)
