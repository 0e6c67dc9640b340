"""Which job may begin next: so many run at a time, of one token, and asking one provider."""

from collections import Counter
from collections.abc import Sequence

from tracegrade.suites.jobs.suite_request import providers_of
from tracegrade.suites.settings import JobsSettings
from tracegrade.suites.store.jobs import WAITING, Job


def next_job(unfinished: Sequence[Job], limits: JobsSettings) -> Job | None:
    """The job to begin; None where none may.

    The first that was submitted comes first, those that were interrupted before all others. One that waits for a
    provider is not overtaken by a later one that asks this provider.
    """
    running = [job for job in unfinished if job.state == "running"]
    if len(running) >= limits.at_a_time:
        return None
    of_tokens = Counter((job.tenant, job.owner) for job in running)
    asked = Counter(provider for job in running for provider in providers_of(job.request))
    taken = {provider for provider, number in asked.items() if number >= limits.of_one_provider}
    waiting = [job for job in unfinished if job.state in WAITING]
    for job in sorted(waiting, key=lambda job: (job.state != "interrupted", job.created_ns, job.id)):
        if of_tokens[job.tenant, job.owner] >= limits.of_one_token:
            continue
        providers = providers_of(job.request)
        if not providers & taken:
            return job
        taken |= providers
    return None
