"""Addresses of the pages of suites and evals, and of the streams of jobs."""

from urllib.parse import quote

from tracegrade.web.addresses import TENANT, address


def eval_address(id_: str, tenant: str = TENANT, *, all: str = "") -> str:
    """The page of an eval: a job that runs a suite."""
    return address(f"/evals/{quote(id_)}", tenant=tenant, all=all)


def job_events_address(id_: str, tenant: str = TENANT) -> str:
    """The stream of what happens in a job."""
    return address(f"/api/v1/jobs/{quote(id_)}/events", tenant=tenant)


def run_eval_address(tenant: str = TENANT, *, suite: str = "", experiment: str = "", again: str = "") -> str:
    """The form that runs a suite: with this suite and experiment chosen, or filled in as that eval was."""
    return address("/evals/new", tenant=tenant, suite=suite, experiment=experiment, again=again)


def suite_address(id_: str, tenant: str = TENANT, within: str = "", *, all: str = "") -> str:
    """The page of a stored suite, with all its cases if `all` is set, or one within it."""
    return address(f"/suites/{quote(id_)}" + (f"/{within}" if within else ""), tenant=tenant, all=all)


def case_address(suite: str, case: str, tenant: str = TENANT) -> str:
    """The form of a case of a stored suite."""
    return suite_address(suite, tenant, f"cases/{quote(case)}")
