"""``tracegrade jobs``: runs of suites in the background."""

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Group
from tracegrade.cli.options import own_tenant_option
from tracegrade.cli.output import (
    EXIT_FAILED,
    Styled,
    format_option,
    print_json,
    print_line,
    print_rows,
    print_text,
    progress,
    styled,
)
from tracegrade.cli.process import make_files_private
from tracegrade.cli.settings import ReadSettings, reading_options, settings_options
from tracegrade.display import time_text

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.suites.store.jobs import Event, Job

_LOOK_EVERY_S = 0.25
_STYLES = {"done": "green", "failed": "red", "running": "cyan", "interrupted": "yellow"}

tenant_option = own_tenant_option("Whose jobs.")


@click.group(cls=Group, path="jobs")
def command() -> None:
    """Show, cancel and resume runs of suites in the background.

    'suite run --background', the page and the API submit them. 'serve' runs them in a process of its own, and continues
    those that were interrupted when that process ended.
    """


@command.command("list")
@tenant_option
@click.option("--all", "shows_all", is_flag=True, help="Also those that ended, the latest 100 of them.")
@reading_options
@format_option
def list_(settings: ReadSettings, output_format: str, tenant: str, shows_all: bool) -> None:
    """List jobs that wait or run, the latest first.

    JSON: one job per line, {tenant, job_id, kind, state, suite_id, models, experiment, runs, result_ref, done, total,
    message, created_ns, begun_ns, ended_ns, seen_ns}.
    """
    from tracegrade.store.open import reading_store
    from tracegrade.suites.store.jobs import STATES, UNFINISHED, stored_jobs

    with reading_store(settings.store_url) as connection:
        found = stored_jobs(connection, tenant, STATES if shows_all else UNFINISHED, limit=100)
    if output_format == "json":
        print_json(map(job_json, found))
        return
    print_rows(
        (
            {
                "job": job.id,
                "state": _state(job),
                "done": f"{job.done}/{job.total}" if job.total else None,
                "suite": job.request.get("suite"),
                "models": job.request.get("models"),
                "submitted (UTC)": time_text(job.created_ns),
                "runs": job.runs,
                "message": job.message,
            }
            for job in found
        ),
        empty="No jobs." if shows_all else "No jobs wait or run; --all shows those that ended.",
        whole=["job", "submitted (UTC)"],
        spare=["runs", "message", "suite"],
        cut="message",
    )


@command.command()
@click.argument("job_id", metavar="JOB")
@tenant_option
@click.option("--follow", is_flag=True, help="Wait for its end, and show what happens until then.")
@click.option("--events", "shows_events", is_flag=True, help="Show everything that happened in it, as JSON.")
@reading_options
@format_option
def show(
    settings: ReadSettings, output_format: str, tenant: str, job_id: str, follow: bool, shows_events: bool
) -> None:
    """Show a job: how far it is, and what it writes.

    JSON: as of 'list', one line. Exit codes: 0; 1 with --follow, if the job failed or was cancelled.
    """
    (job_id,) = _named(settings, tenant, [job_id])
    if follow:
        _follow(settings, tenant, job_id, shows_events=shows_events)
    elif shows_events:
        print_json(_event_json(event) for event in _events(settings, tenant, job_id))
        return
    job = _stored(settings, tenant, job_id)
    if output_format == "json":
        print_json([job_json(job)])
    else:
        print_job(job, _stored_runs(settings, job))
    if follow and job.state in ("failed", "cancelled"):
        sys.exit(EXIT_FAILED)


@command.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@tenant_option
@settings_options
def cancel(config: "Config", tenant: str, job_ids: tuple[str, ...]) -> None:
    """Cancel jobs and their requests to models. Stored results stay."""
    from tracegrade.suites.jobs.submit import cancel

    make_files_private()
    for job_id in _named(config, tenant, job_ids):
        job = cancel(config, tenant, job_id)
        print_line(f"{job_id}: {job.state}" + ("" if job.state == "cancelled" else ", so nothing was to be cancelled"))


@command.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@tenant_option
@settings_options
def resume(config: "Config", tenant: str, job_ids: tuple[str, ...]) -> None:
    """Queue jobs again that failed or were cancelled: they continue with what is not stored yet."""
    from tracegrade.suites.jobs.submit import resume

    make_files_private()
    for job_id in _named(config, tenant, job_ids):
        job = resume(config, tenant, job_id)
        print_line(f"{job_id}: {job.state}")


def submit_run(config: "Config", tenant: str, suite: str, asked: dict[str, Any]) -> None:
    """Submit the run of a stored suite of `tenant`, by its id or name, and say which job that is."""
    from tracegrade.store.open import reading_store
    from tracegrade.suites.jobs.submit import submit
    from tracegrade.suites.jobs.suite_request import suite_request
    from tracegrade.suites.keeping import suite_called

    make_files_private()
    with reading_store(config.store_url) as connection:
        found = suite_called(connection, tenant, suite)
    job = submit(config, tenant, "", suite_request({**asked, "suite": found.id}))
    print_line(f"Submitted as job {job.id}: 'tracegrade serve' runs it; 'tracegrade jobs show {job.id}' shows it.")


def job_json(job: "Job") -> dict[str, Any]:
    """The documented JSON object."""
    request = job.request
    return {
        "tenant": job.tenant,
        "job_id": job.id,
        "kind": job.kind,
        "state": job.state_at(time.time_ns()),
        "suite_id": request.get("suite"),
        "models": request.get("models"),
        "experiment": request.get("experiment"),
        "runs": [*job.runs],
        "result_ref": job.result_ref,
        "done": job.done,
        "total": job.total,
        "message": job.message,
        "created_ns": job.created_ns,
        "begun_ns": job.begun_ns,
        "ended_ns": job.ended_ns,
        "seen_ns": job.seen_ns or None,
    }


def print_job(job: "Job", there: Sequence[str]) -> None:
    """Print one job for people; of its runs, those that are ``there`` were not deleted."""
    request = job.request
    print_text(styled(f"job {job.id}", "bold") + styled("  ") + _state(job))
    if job.message:
        print_line(f"  {job.message}")
    if job.state_at(time.time_ns()) == "interrupted":
        print_line("  it goes on when 'tracegrade serve' runs over this data folder")
    rows = {
        "suite": request.get("suite"),
        "models": ", ".join(request.get("models", ())),
        "asked with": f"temperature {request.get('temperature')}, tool_choice {request.get('tool_choice')}"
        + (f", {request['repeat']} times each" if request.get("repeat", 1) > 1 else ""),
        "done": f"{job.done} of {job.total}" if job.total else "nothing yet",
        "submitted": f"{time_text(job.created_ns)} UTC",
        "begun": None if job.begun_ns is None else f"{time_text(job.begun_ns)} UTC",
        "ended": None if job.ended_ns is None else f"{time_text(job.ended_ns)} UTC",
        "runs": ", ".join(name if name in there else f"{name} (deleted)" for name in job.runs),
    }
    for name, text in rows.items():
        if text:
            print_line(f"  {name:<10} {text}")
    if there:
        print_line(f"  to see a run: tracegrade experiments show {shlex.quote(there[-1])}")


def _state(job: "Job") -> Styled:
    state = job.state_at(time.time_ns())
    return styled(state, _STYLES.get(state, ""))


def _named(settings: "ReadSettings | Config", tenant: str, written: Sequence[str]) -> list[str]:
    """The id of the job that each of these is, or begins; as it is where none does."""
    from tracegrade.store.open import reading_store
    from tracegrade.suites.store.jobs import job_named

    with reading_store(settings.store_url) as connection:
        return [job_named(connection, tenant, name) for name in written]


def _stored(settings: ReadSettings, tenant: str, job_id: str) -> "Job":
    from tracegrade.store.open import reading_store
    from tracegrade.suites.jobs.submit import known_job

    with reading_store(settings.store_url) as connection:
        return known_job(connection, tenant, job_id)


def _stored_runs(settings: ReadSettings, job: "Job") -> list[str]:
    """Those runs of a job that were not deleted."""
    from tracegrade.store.open import reading_store
    from tracegrade.store.runs import stored_run

    with reading_store(settings.store_url) as connection:
        found = [stored_run(connection, job.tenant, name) for name in job.runs]
    return [run.name for run in found if run is not None and run.state != "deleting"]


def _events(settings: ReadSettings, tenant: str, job_id: str, after: int = 0) -> "Iterator[Event]":
    """Everything that happened in a job until now, after the event with this number."""
    from tracegrade.store.open import reading_store
    from tracegrade.suites.store.jobs import events_after

    _stored(settings, tenant, job_id)
    while True:
        with reading_store(settings.store_url) as connection:
            found = events_after(connection, tenant, job_id, after)
        if not found:
            return
        yield from found
        after = found[-1].number


def _event_json(event: "Event") -> dict[str, Any]:
    return {"number": event.number, "at_ns": event.at_ns, "event": event.name, **event.fields}


def _follow(settings: ReadSettings, tenant: str, job_id: str, *, shows_events: bool) -> None:
    """Show what happens until the job has ended: a bar, or a line for each case without a terminal."""
    from tracegrade.suites.store.jobs import UNFINISHED

    job, after, done = _stored(settings, tenant, job_id), 0, 0
    while not job.total and job.state in UNFINISHED:
        time.sleep(_LOOK_EVERY_S)
        job = _stored(settings, tenant, job_id)
    with progress("cases", job.total) as advance:
        while True:
            job = _stored(settings, tenant, job_id)  # before its events, so that none is left out at the end
            for event in _events(settings, tenant, job_id, after):
                after = event.number
                if shows_events:
                    print_json([_event_json(event)])
                elif event.name == "tool_eval_result" and not sys.stderr.isatty():
                    _say(event)
            if job.done > done:
                advance(job.done - done)
                done = job.done
            if job.state not in UNFINISHED:
                return
            time.sleep(_LOOK_EVERY_S)


def _say(event: "Event") -> None:
    told = event.fields
    score = "" if told.get("overall_score") is None else f" overall {told['overall_score']:.4g}"
    print_line(
        f"{told['outcome']} {told['model']} {told['case_id']}{score} {told['current']}/{told['total']}", err=True
    )
