"""``tracegrade serve``: the two roles."""

import gc
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.output import print_line, print_lines, reports_errors
from tracegrade.cli.private_files import make_files_private
from tracegrade.cli.settings_option import config_option, data_dir_option
from tracegrade.model.errors import TraceGradeError
from tracegrade.words import printable, printable_lines

if TYPE_CHECKING:
    from tracegrade.config import Config


@click.command()
@config_option
@data_dir_option
@click.option(
    "--role",
    type=click.Choice(["all", "receive", "judge", "web"]),
    default="all",
    show_default=True,
    help="all: receive, and keep a judge and a web process running beside it.",
)
@click.option("--no-watchdog", is_flag=True, help="Leave a judge alone that hangs, to look at it.")
@click.option("--ends-with-stdin", is_flag=True, hidden=True)  # how the receive role keeps the other two
@click.option("--listens-on", type=int, hidden=True)  # the descriptor of a socket that the receive role has bound
@reports_errors
def command(
    config_path: Path | None,
    data_dir: str | None,
    role: str,
    no_watchdog: bool,
    ends_with_stdin: bool,
    listens_on: int | None,
) -> None:
    """Receive OTLP, forward it, judge it, and show what came of it.

    Listens on 127.0.0.1:4317 (gRPC) and 127.0.0.1:4318 (HTTP) unless the settings say otherwise; metrics and health
    are on 127.0.0.1:8888, the page on 127.0.0.1:4319. SIGTERM and Ctrl-C stop it in order; what is not done then is
    done at the next start.
    """
    from tracegrade.config import load_config
    from tracegrade.pipeline.allocator import keep_freed_memory

    keep_freed_memory()
    make_files_private()
    config = load_config(config_path, data_dir=data_dir)
    if no_watchdog:
        config = config.model_copy(update={"judge": config.judge.model_copy(update={"watchdog": False})})
    if role == "judge":
        exit_code = _judge(config, ends_with_stdin)
    elif role == "web":
        exit_code = _web(config, ends_with_stdin, listens_on)
    else:
        exit_code = _receive(config, config_path, with_judge=role == "all")
    gc.freeze()  # all is closed: the interpreter would look several times for garbage among what ends with it
    sys.exit(exit_code)


def _judge(config: "Config", ends_with_stdin: bool) -> int:
    import signal

    from tracegrade.journal.errors import JournalLocked, JournalNotFound
    from tracegrade.pipeline.data_folder import DataFolder
    from tracegrade.pipeline.judge_process import EXIT_NOT_YET, note_what_ended_the_last
    from tracegrade.pipeline.judge_role import JudgeRole, say_that_the_store_is_away
    from tracegrade.pipeline.parent import stop_when_parent_ends
    from tracegrade.store.open import StoreUnavailable

    _log_to_stderr("judge")
    try:
        with _says_what_is_wrong_with_the_folder(config):
            folder = DataFolder(config.data_path)
            if not ends_with_stdin:  # else the receive role has seen it end
                note_what_ended_the_last(folder)
            role = JudgeRole(config)
    except StoreUnavailable as error:
        say_that_the_store_is_away(folder, str(error))
        return EXIT_NOT_YET
    except (JournalLocked, JournalNotFound) as error:
        print_lines(f"Error: {error}", err=True)
        return EXIT_NOT_YET
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: role.stop())
    if ends_with_stdin:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the receiver ends us when it is done
        stop_when_parent_ends(role.stop)
    try:
        role.run()
    except StoreUnavailable as error:
        say_that_the_store_is_away(folder, str(error))
        return EXIT_NOT_YET
    return 0


def _web(config: "Config", ends_with_stdin: bool, listens_on: int | None) -> int:
    import asyncio
    import signal
    import socket

    from tracegrade.pipeline.parent import stop_when_parent_ends
    from tracegrade.pipeline.web_role import WebRole
    from tracegrade.receive.access import check_access
    from tracegrade.receive.listen import bound_socket

    _log_to_stderr("web")
    settings = config.web
    if settings is None:
        raise TraceGradeError("web: null turns the page off; give it an endpoint, or leave the key out")
    check_access("web", settings)
    role = WebRole(config, settings)
    listening = bound_socket("web", settings.endpoint) if listens_on is None else socket.socket(fileno=listens_on)

    async def main() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if ends_with_stdin:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the receiver ends us when it is done
            stop_when_parent_ends(lambda: loop.call_soon_threadsafe(stop.set))
        else:
            host = settings.endpoint.rpartition(":")[0]
            scheme = "http" if settings.tls is None else "https"
            shown = f"{scheme}://{host}:{listening.getsockname()[1]}"
            listening.listen()  # else whoever reads the next line may be refused
            print_line(f"Listening: web {shown}. Data in {config.data_dir}.", err=True)
        await role.run(stop, listening)
        return 0

    return _run(main)


def _receive(config: "Config", config_path: Path | None, *, with_judge: bool) -> int:
    import asyncio
    import signal

    from tracegrade.evaluate.registry import custom
    from tracegrade.extract.registry import CUSTOM
    from tracegrade.match.load import load_rules
    from tracegrade.pipeline.receive_role import ReceiveRole

    _log_to_stderr("receive")
    dialects = [f"{plugin.name} of {plugin.package} {plugin.version}" for plugin in CUSTOM]
    evaluators = [f"{plugin.name} of {plugin.package} {plugin.version}" for plugin in custom().values()]
    rule_set = load_rules(
        config.rules.paths, semantic_model=config.rules.semantic_model
    )  # a wrong rule stops the start here, not in a restarted judge
    for warning in rule_set.warnings if with_judge else ():
        print_line(f"Warning: {warning}", err=True)
    with _says_what_is_wrong_with_the_folder(config):
        role = ReceiveRole(config, config_path, with_judge=with_judge)
    if with_judge and not len(rule_set):
        print_line("No rules: traces are kept and forwarded, nothing is judged. Name some in rules.paths.", err=True)
    if with_judge and "paths" not in config.rules.model_fields_set:
        names = ", ".join(rule.id for rule in rule_set.rules)
        print_line(f"rules.paths is not set: judging by builtin:default, which is {names}.", err=True)

    def ready(endpoints: dict[str, str]) -> None:
        shown = ", ".join(f"{name} {endpoint}" for name, endpoint in endpoints.items())
        print_line(f"Listening: {shown}. Data in {config.data_dir}. {len(rule_set)} rules.", err=True)
        if dialects:
            print_line(f"Dialects of installed packages: {', '.join(dialects)}.", err=True)
        if evaluators:
            print_line(f"Evaluators of installed packages: {', '.join(evaluators)}.", err=True)

    async def main() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stop_in_order() -> None:
            print_line("Stopping: requests in work are answered, what is left is done at the next start.", err=True)
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop_in_order)
        return await role.run(stop, ready)

    return _run(main)


# What no later start can find mended by itself. A full disk can be, so that the judge is started again.
_WRONG_FOLDER = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


@contextmanager
def _says_what_is_wrong_with_the_folder(config: "Config") -> Iterator[None]:
    try:
        yield
    except _WRONG_FOLDER as error:
        raise TraceGradeError(
            f"data_dir: cannot use {config.data_dir!r}: {error.filename}: {error.strerror}; expected a folder that "
            "this user may write to, made if missing"
        ) from None


def _run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    import asyncio

    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.run(main())
    return uvloop.run(main())


def _log_to_stderr(role: str) -> None:
    import logging

    from tracegrade.receive.log_limit import LogLimit

    class Printable(logging.Formatter):
        """One line a message, safe on a terminal: messages quote what senders and other servers wrote."""

        def formatMessage(self, record: logging.LogRecord) -> str:
            return printable(super().formatMessage(record))

        def format(self, record: logging.LogRecord) -> str:
            return printable_lines(super().format(record))

    handler = logging.StreamHandler()
    handler.setFormatter(Printable(f"%(asctime)s {role} %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(LogLimit())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for talkative in ("alembic", "uvicorn"):
        logging.getLogger(talkative).setLevel(logging.WARNING)
