"""Addresses of pages that show one thing; its tenant and its run are in them where they are not the usual ones."""

from collections.abc import Callable
from urllib.parse import quote, urlencode

from tracegrade.store.schema import LIVE

TENANT = "default"
"""Whose runs and experiments a page shows, unless its address names another."""


def address(path: str, *, tenant: str = TENANT, run: str = LIVE, **query: str | None) -> str:
    """`path` with a query; what is None or "", the usual tenant and the live run are left out."""
    given = {"run": run if run != LIVE else "", "tenant": tenant if tenant != TENANT else "", **query}
    known = {name: value for name, value in given.items() if value}
    return path + (f"?{urlencode(known)}" if known else "")


def trace_address(trace_id: str, tenant: str = TENANT, run: str = LIVE, **query: str | None) -> str:
    """The page of a trace."""
    return address(f"/traces/{trace_id}", tenant=tenant, run=run, **query)


def span_address(trace_id: str, span_id: str, tenant: str = TENANT, run: str = LIVE, **query: str | None) -> str:
    """The page of a span."""
    return address(f"/traces/{trace_id}/spans/{span_id}", tenant=tenant, run=run, **query)


def spans_at(trace_id: str, tenant: str = TENANT, run: str = LIVE, **query: str | None) -> Callable[[str], str]:
    """The page of a span of this trace, by the span's id."""
    return lambda span_id: span_address(trace_id, span_id, tenant, run, **query)


def session_address(
    trace_id: str, tenant: str = TENANT, run: str = LIVE, session: str = "", **query: str | None
) -> str:
    """The page of a session, by the trace id of its own; one that no rule judged is found by its name, `session`."""
    return address(f"/sessions/{trace_id}", tenant=tenant, run=run, session=session, **query)


def run_address(name: str, tenant: str = TENANT, *, case: str = "", cases: str = "", all: str = "") -> str:
    """The page of a run; of a suite's, one case of it, or its cases of a kind, all of them if `all` is set."""
    return address(f"/runs/{quote(name)}", tenant=tenant, case=case, cases=cases, all=all)


def experiment_address(name: str, tenant: str = TENANT) -> str:
    """The page of an experiment."""
    return address(f"/experiments/{quote(name)}", tenant=tenant)
