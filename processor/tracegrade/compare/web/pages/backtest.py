"""What a changed rule would have said: the answer to the form on a rule's page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.alert.wording import summary
from tracegrade.compare.web.backtesting import BACKTESTING, SINCE, WrongRule
from tracegrade.model.errors import NotPossible
from tracegrade.queries.parameters import JudgedTracesQuery
from tracegrade.queries.times import time_of
from tracegrade.web.forms import form_of
from tracegrade.web.own_process import RETRY_S, Busy
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of

_WAYS = {
    "newly_fails": "Newly fail",
    "newly_passes": "Newly pass",
    "newly_unjudged": "No longer judged",
    "newly_matched": "Newly matched",
    "no_longer_matched": "No longer matched",
}
_MOST_GROUPS = 10


@dataclass(frozen=True, slots=True)
class Way:
    """How subjects changed: its name, how many did, and a few of them, as the documented object has them."""

    name: str
    number: int
    examples: list[dict[str, Any]]


async def act(request: Request) -> Response:
    """Judge the stored traces by the rule of the form, and show what that changes."""
    form = await form_of(request)
    return await run_in_threadpool(
        _backtest_page, request, form.get("rule", ""), form.get("since", "").strip() or SINCE
    )


def _backtest_page(request: Request, text: str, since: str) -> Response:
    values: dict[str, Any] = {"rule_id": request.path_params["rule_id"], "text": text, "since": since}
    values |= {"found": None, "problems": [], "problem": ""}
    title = f"Backtest of {values['rule_id']}"

    def not_done(status: int, **why: Any) -> Response:
        return page(request, "backtest.html", title=title, status=status, **values | why)

    try:
        query = JudgedTracesQuery(since=time_of(since))
        found = BACKTESTING.backtest(sources_of(request), text, query, token_of(request))
    except ValueError as error:
        return not_done(400, problem=f"since: {error}")
    except WrongRule as error:
        return not_done(400, problems=error.problems)
    except NotPossible as error:
        return not_done(409, problem=str(error))
    except Busy as error:
        answer = not_done(503, problem=str(error))
        answer.headers["Retry-After"] = str(RETRY_S)
        return answer
    document = found.document
    rule = next(iter(document["rules"]), None)
    return page(
        request,
        "backtest.html",
        title=title,
        **values
        | {
            "found": document,
            "judged": found.judged,
            "rule": rule,
            "ways": [] if rule is None else list(_ways(rule)),
            "groups": [] if rule is None else _groups(rule),
            "alerts": found.alerts,
            "fired": [] if found.alerts is None else [(summary(alert), alert) for alert in found.alerts.fired],
            "notes": found.notes,
        },
    )


def _ways(rule: Mapping[str, Any]) -> Iterator[Way]:
    for way, name in _WAYS.items():
        changed = rule["changes"][way]
        if changed["subjects"] or way in ("newly_fails", "newly_passes", "newly_matched"):
            yield Way(name, changed["subjects"], changed["examples"])


def _groups(rule: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The largest ones; none where there is only one, which the whole rule shows."""
    groups: list[dict[str, Any]] = rule["groups"]
    return groups[:_MOST_GROUPS] if len(groups) > 1 else []
