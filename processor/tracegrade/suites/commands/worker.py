"""``tracegrade serve --role jobs``: the worker of jobs."""

from typing import TYPE_CHECKING

from tracegrade.cli.output import print_lines
from tracegrade.cli.serve import say_where, status_of

if TYPE_CHECKING:
    from tracegrade.config import Config


def run_worker(config: "Config", ends_with_stdin: bool) -> int:
    """Run the worker of jobs until there are none, or until it is stopped. Returns its exit code."""
    from sqlalchemy.exc import SQLAlchemyError

    from tracegrade.serve.process import explains_folder_errors, name_process, stop_on_signals
    from tracegrade.serve.supervising.judge_process import EXIT_NOT_YET
    from tracegrade.store.errors import StoreError
    from tracegrade.suites.jobs.worker import Worker

    name_process("jobs")
    try:
        with explains_folder_errors(config):
            worker = Worker(config, ends_when_idle=ends_with_stdin)
        stop_on_signals(worker.stop, ends_with_stdin=ends_with_stdin)
        with status_of(config, "jobs", is_kept=ends_with_stdin) as endpoint:
            if endpoint is not None:
                say_where(config, endpoint)
            worker.run()
    except (StoreError, SQLAlchemyError) as error:
        print_lines(f"Error: {error}", err=True)
        return EXIT_NOT_YET
    return 0
