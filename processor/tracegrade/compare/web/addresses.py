"""Addresses of pages that compare."""

from urllib.parse import urlencode

from tracegrade.store.schema import LIVE
from tracegrade.web.addresses import TENANT, address


def compare_address(a: str, b: str, tenant: str) -> str:
    """The page that compares two runs of a tenant; it is always named, as runs of others may have the same names."""
    return f"/compare?{urlencode({'a': a, 'b': b, 'tenant': tenant})}"


def compare_traces_address(a: str, b: str, run_a: str = LIVE, run_b: str = LIVE, tenant: str = TENANT) -> str:
    """The page of two traces side by side."""
    runs = {"run_a": run_a if run_a != LIVE else "", "run_b": run_b if run_b != LIVE else ""}
    return address("/compare/traces", tenant=tenant, a=a, b=b, **runs)


def passing_address(failing: str, rule_id: str, run: str = LIVE, tenant: str = TENANT) -> str:
    """The page of a failing trace beside one in which the rule passes."""
    run_a = run if run != LIVE else ""
    return address("/compare/traces", tenant=tenant, a=failing, passing=rule_id, run_a=run_a)
