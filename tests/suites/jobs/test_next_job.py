"""Which job begins next."""

from typing import Any

from build import each
from tracegrade.suites.jobs.worker import next_job
from tracegrade.suites.settings import JobsSettings
from tracegrade.suites.store.jobs import Job

ONE = JobsSettings(at_a_time=2, of_one_token=2, of_one_provider=1)


def job(name: str, state: Any, *models: str, owner: str = "", tenant: str = "default") -> Job:
    """A job; it was submitted at the time that its name ends in."""
    request = {"models": [*models]}
    created = int(name.rpartition("-")[2])
    return Job(tenant=tenant, id=name, owner=owner, state=state, request=request, created_ns=created)


@each(
    ("what", "unfinished", "limits", "expected"),
    [
        ("nothing waits", [job("a-1", "running", "x::m")], ONE, None),
        ("the first that came", [job("b-2", "queued", "x::m"), job("a-1", "queued", "x::m")], ONE, "a-1"),
        ("one that was interrupted", [job("a-1", "queued", "x::m"), job("b-2", "interrupted", "x::m")], ONE, "b-2"),
        ("its provider is asked", [job("a-1", "running", "x::m"), job("b-2", "queued", "x::n")], ONE, None),
        (
            "another provider is free",
            [job("a-1", "running", "x::m"), job("b-2", "queued", "x::n"), job("c-3", "queued", "y::m")],
            ONE,
            "c-3",
        ),
        (
            "a later one does not take the provider that an earlier one waits for",
            [job("a-1", "running", "x::m"), job("b-2", "queued", "x::n", "y::n"), job("c-3", "queued", "y::m")],
            ONE,
            None,
        ),
        (
            "enough run",
            [job("a-1", "running", "x::m"), job("b-2", "running", "y::m"), job("c-3", "queued", "z::m")],
            ONE,
            None,
        ),
        (
            "one token has enough, another may begin",
            [
                job("a-1", "running", "x::m", owner="one"),
                job("b-2", "queued", "y::m", owner="one"),
                job("c-3", "queued", "y::m", owner="two"),
            ],
            JobsSettings(at_a_time=9, of_one_token=1, of_one_provider=9),
            "c-3",
        ),
        (
            "tokens of two tenants are two",
            [job("a-1", "running", "x::m"), job("b-2", "queued", "y::m", tenant="other")],
            JobsSettings(at_a_time=9, of_one_token=1, of_one_provider=9),
            "b-2",
        ),
        (
            "two may ask one provider where the settings say so",
            [job("a-1", "running", "x::m"), job("b-2", "queued", "x::m")],
            JobsSettings(of_one_provider=2),
            "b-2",
        ),
    ],
)
def test_the_next_job(what: str, unfinished: list[Job], limits: JobsSettings, expected: str | None) -> None:
    found = next_job(unfinished, limits)
    assert (None if found is None else found.id) == expected, what
