"""``tracegrade serve``: the roles."""

import gc
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.output import print_line, print_lines
from tracegrade.cli.process import make_files_private
from tracegrade.cli.settings import config_option, data_dir_option
from tracegrade.display import count
from tracegrade.model.errors import TraceGradeError
from tracegrade.part import needed

if TYPE_CHECKING:
    import asyncio

    from tracegrade.config import Config
    from tracegrade.pipeline.data_folder import Judge


@click.command(cls=Command)
@config_option
@data_dir_option
@click.option(
    "--role",
    type=click.Choice(["all", "receive", "judge", "web", "jobs"]),
    default="all",
    show_default=True,
    help="The part to run. all: each of them, as it is needed.",
)
@click.option("--no-watchdog", is_flag=True, help="Do not restart a judge that hangs, so that it can be examined.")
@click.option("--ends-with-stdin", is_flag=True, hidden=True)  # how the receive role keeps the others
@click.option("--part", hidden=True)  # of several judges, the one of this name; or delivery for all of them
@click.option("--listens-on", type=int, hidden=True)  # the descriptor of a socket that the receive role has bound
def command(
    config_path: Path | None,
    data_dir: str | None,
    role: str,
    no_watchdog: bool,
    ends_with_stdin: bool,
    part: str | None,
    listens_on: int | None,
) -> None:
    """Receive OTLP, forward it, judge it, and show the results.

    Listens on 127.0.0.1:4317 (gRPC) and 127.0.0.1:4318 (HTTP) unless the settings say otherwise; metrics and health are
    on 127.0.0.1:8888, the page on 127.0.0.1:4319. A role that runs alone has metrics and health, too: give each on one
    machine its own telemetry.endpoint. SIGTERM and Ctrl-C stop it cleanly: requests being handled are
    finished; remaining work continues at the next start.
    """
    from tracegrade.build import build_version
    from tracegrade.config import load_config
    from tracegrade.deliver.parquet.storage import check_place
    from tracegrade.pipeline.data_folder import check_is_whole
    from tracegrade.serve.tuning import keep_freed_memory

    keep_freed_memory()
    make_files_private()
    config = load_config(config_path, data_dir=data_dir)
    for warning in config.warnings if not ends_with_stdin else ():  # the receive role has printed them
        print_line(f"Warning: {warning}", err=True)
    if not ends_with_stdin:
        print_line(f"TraceGrade {build_version()}", err=True)
    check_is_whole(config.data_path)
    if no_watchdog:
        config = config.model_copy(update={"judge": config.judge.model_copy(update={"watchdog": False})})
    if config.parquet is not None and role in ("all", "judge") and not ends_with_stdin:
        check_place(config.parquet)  # at the start alone: later, rows wait in the results journal
    with config.names_lines():
        if role == "judge":
            exit_code = _judge(config, config_path, ends_with_stdin, part)
        elif role == "web":
            exit_code = _web(config, ends_with_stdin, listens_on)
        elif role == "jobs":
            exit_code = needed("suites", "run_worker", "--role jobs")(config, ends_with_stdin)
        else:
            exit_code = _receive(config, config_path, with_judge=role == "all")
    # All is closed. The interpreter would look several times for garbage among what ends with it, some 0.4 s of CPU.
    gc.freeze()
    sys.exit(exit_code)


def _judge(config: "Config", config_path: Path | None, ends_with_stdin: bool, part: str | None) -> int:
    from tracegrade.journal.errors import JournalLocked
    from tracegrade.pipeline.data_folder import DELIVERY, JUDGE, DataFolder, judge_of
    from tracegrade.serve.process import explains_folder_errors, name_process
    from tracegrade.serve.receiving.judge_snapshots import shown_of_judges
    from tracegrade.serve.status import answering_status
    from tracegrade.serve.supervising.judge_keeper import lock_judges, put_in_force
    from tracegrade.serve.supervising.judge_process import EXIT_NOT_YET, note_what_ended_the_last

    name_process(part or "judge")
    judge = judge_of(part or JUDGE)
    if judge is None and part != DELIVERY:
        raise TraceGradeError(f"--part: found {part!r}, expected judge-K-of-N or {DELIVERY}: only 'serve' gives it")
    if ends_with_stdin:  # what keeps us has the lock, and answers for us
        return _run_judge(config, judge, part or JUDGE, ends_with_stdin=True)
    if config.judge.worker_count > 1:
        return _keep_judges(config, config_path)
    try:
        with explains_folder_errors(config):
            folder = DataFolder(config.data_path)
            lock = lock_judges(folder)  # noqa: F841  # held until the end of the process
            put_in_force(folder, config)
            note_what_ended_the_last(folder)
    except JournalLocked as error:
        print_lines(f"Error: {error}", err=True)
        return EXIT_NOT_YET
    with answering_status(config, shown_of_judges(folder)) as endpoint:
        say_where(config, endpoint)
        return _run_judge(config, judge, JUDGE, ends_with_stdin=False)


def _run_judge(config: "Config", judge: "Judge | None", name: str, *, ends_with_stdin: bool) -> int:
    """One process that judges, or delivers where `judge` is None."""
    from tracegrade.journal.errors import JournalLocked, JournalNotFound, KafkaAway
    from tracegrade.journal.kafka.consume import KafkaFailed
    from tracegrade.pipeline.data_folder import DataFolder
    from tracegrade.serve.delivery_role import DeliveryRole
    from tracegrade.serve.judge_role import JudgeRole, say_that_the_store_is_away
    from tracegrade.serve.process import explains_folder_errors, stop_on_signals
    from tracegrade.serve.supervising.judge_process import EXIT_NOT_YET
    from tracegrade.serve.worker_role import WorkerRole
    from tracegrade.store.errors import StoreUnavailable

    roles: list[JudgeRole | DeliveryRole] = []

    def stop() -> None:
        if not roles:
            os._exit(0)  # it waits for the store or for another process, and has written nothing yet
        roles[0].stop()

    stop_on_signals(stop, ends_with_stdin=ends_with_stdin)
    try:
        with explains_folder_errors(config):
            if judge is None:
                roles.append(DeliveryRole(config))
            else:
                roles.append(JudgeRole(config) if judge.share.is_all else WorkerRole(config, judge))
        roles[0].run()
    except StoreUnavailable as error:
        say_that_the_store_is_away(DataFolder(config.data_path), str(error), name)
        return EXIT_NOT_YET
    except (JournalLocked, JournalNotFound, KafkaAway, KafkaFailed) as error:
        print_lines(f"Error: {error}", err=True)
        return EXIT_NOT_YET
    return 0


def _keep_judges(config: "Config", config_path: Path | None) -> int:
    """Several judges, without a receive role that keeps them."""
    from tracegrade.journal.errors import JournalLocked
    from tracegrade.pipeline.data_folder import DataFolder
    from tracegrade.serve.process import explains_folder_errors, role_command, run_in_loop
    from tracegrade.serve.receiving.judge_snapshots import shown_of_judges
    from tracegrade.serve.status import answering_status
    from tracegrade.serve.supervising.judge_keeper import JudgeKeeper
    from tracegrade.serve.supervising.judge_process import EXIT_NOT_YET, EXIT_USAGE
    from tracegrade.telemetry.metrics import Telemetry
    from tracegrade.telemetry.process import note_process

    try:
        with explains_folder_errors(config):
            command = role_command("judge", config, config_path)
            folder, telemetry = DataFolder(config.data_path), Telemetry("keeper")
            keeper = JudgeKeeper(command, config, folder, telemetry)
    except JournalLocked as error:
        print_lines(f"Error: {error}", err=True)
        return EXIT_NOT_YET

    judges = shown_of_judges(folder)

    def shown() -> list[dict[str, Any]]:
        note_process(telemetry, "keeper")
        return [telemetry.snapshot(), *judges()]

    async def main(stop: "asyncio.Event") -> int:
        await keeper.run(stop)
        return EXIT_USAGE if keeper.refused_to_start else 0

    with answering_status(config, shown) as endpoint:
        say_where(config, endpoint)
        return run_in_loop(main)


def _web(config: "Config", ends_with_stdin: bool, listens_on: int | None) -> int:
    import socket

    from tracegrade.access.tokens import MadeTokens
    from tracegrade.receive.access import check_access
    from tracegrade.receive.listen import bound_socket
    from tracegrade.serve.process import name_process, run_in_loop
    from tracegrade.serve.web_role import WebRole

    name_process("web")
    settings = config.web
    if settings is None:
        raise TraceGradeError("web: null turns the page off; give it an endpoint, or leave the key out")
    check_access("web", settings, MadeTokens(config.tokens_path))
    role = WebRole(config, settings)
    listening = (
        bound_socket("web.endpoint", settings.endpoint) if listens_on is None else socket.socket(fileno=listens_on)
    )

    async def main(stop: "asyncio.Event") -> int:
        if not ends_with_stdin:
            host = settings.endpoint.rpartition(":")[0]
            scheme = "http" if settings.tls is None else "https"
            shown = f"{scheme}://{host}:{listening.getsockname()[1]}"
            listening.listen()  # before the next line is printed: its reader may connect at once
            print_line(f"Listening: telemetry {endpoint}, web {shown}. Data in {config.data_path}.", err=True)
        await role.run(stop, listening)
        return 0

    with status_of(config, "web", is_kept=ends_with_stdin) as endpoint:
        return run_in_loop(main, ends_with_stdin=ends_with_stdin)


def say_where(config: "Config", endpoint: str) -> None:
    """Print where metrics are, and where the data is."""
    print_line(f"Listening: telemetry {endpoint}. Data in {config.data_path}.", err=True)


def status_of(config: "Config", role: str, *, is_kept: bool) -> AbstractContextManager[str | None]:
    """Metrics and health of a role that counts nothing itself; one that another process keeps is shown by that."""
    if is_kept:
        return nullcontext()
    from tracegrade.pipeline.version import note_build
    from tracegrade.serve.status import answering_status
    from tracegrade.telemetry.metrics import Telemetry
    from tracegrade.telemetry.process import note_process

    telemetry = Telemetry(role)
    note_build(telemetry)

    def shown() -> list[dict[str, Any]]:
        note_process(telemetry, role)
        return [telemetry.snapshot()]

    return answering_status(config, shown)


def _receive(config: "Config", config_path: Path | None, *, with_judge: bool) -> int:
    from tracegrade.plugins.installed import load_plugins
    from tracegrade.rule.code_access import code_files_of, open_to_others
    from tracegrade.rule.warnings import costs_not_known
    from tracegrade.serve.process import explains_folder_errors, name_process, run_in_loop
    from tracegrade.serve.receive_role import ReceiveRole
    from tracegrade.store.check import check_store

    name_process("receive")
    plugins = load_plugins()
    dialects = [f"{plugin.name} of {plugin.package} {plugin.version}" for plugin in plugins.dialects]
    evaluators = [f"{plugin.name} of {plugin.package} {plugin.version}" for plugin in plugins.evaluators]
    # A wrong rule stops the start here, not in a restarted judge.
    rule_set = config.load_rules()
    config.quotas.check_rules(rule_set)
    costs = [] if config.traces.prices else rule_set.placed(costs_not_known)
    access = open_to_others(config.rules.paths, rule_set) if config.rules.allow_code else ()
    for warning in (*rule_set.warnings, *costs, *access) if with_judge else ():
        print_line(f"Warning: {warning}", err=True)
    if with_judge:
        check_store(config.store_url)  # else senders would be answered until the judge has refused it
    with explains_folder_errors(config):
        role = ReceiveRole(config, config_path, with_judge=with_judge)
    if with_judge and not len(rule_set):
        print_line("No rules: traces are kept and forwarded, nothing is judged. Name some in rules.paths.", err=True)
    if with_judge and "paths" not in config.rules.model_fields_set:
        names = ", ".join(rule.id for rule in rule_set.rules)
        print_line(f"rules.paths is not set: judging by builtin:default, which is {names}.", err=True)

    def ready(endpoints: dict[str, str]) -> None:
        shown = ", ".join(f"{name} {endpoint}" for name, endpoint in endpoints.items())
        print_line(f"Listening: {shown}. Data in {config.data_path}. {count(len(rule_set), 'rule')}.", err=True)
        if dialects:
            print_line(f"Dialects of installed packages: {', '.join(dialects)}.", err=True)
        if evaluators:
            print_line(f"Evaluators of installed packages: {', '.join(evaluators)}.", err=True)
        if code := code_files_of(rule_set):
            print_line(f"Code of rules, which runs here: {', '.join(code)}.", err=True)

    def stopping() -> None:
        print_line(
            "Stopping: requests being handled are finished; remaining work continues at the next start.", err=True
        )

    return run_in_loop(lambda stop: role.run(stop, ready), stopping=stopping)
