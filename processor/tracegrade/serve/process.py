"""The common parts of every process of ``serve``: a log, an end on signals, an event loop."""

import asyncio
import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracegrade.config import Config
from tracegrade.display import printable, printable_lines
from tracegrade.model.errors import TraceGradeError
from tracegrade.receive.log_limit import LogLimit


def stop_when_parent_ends(stop: Callable[[], object]) -> None:
    """Call `stop`, from a new thread, when standard input ends: in whatever way the parent ends, its end closes."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        stop()

    threading.Thread(target=watch, name="parent", daemon=True).start()


# Errors that a later start would meet again. A full disk is not one of them: the judge is started again.
_WRONG_FOLDER = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)  # Windows has none
_NAME_IN_POSTGRESQL = "PGAPPNAME"  # libpq's
_OURS = "tracegrade"  # a process inherits it from the role that started it

logger = logging.getLogger(__name__)


def name_process(role: str) -> None:
    """Say in each line of the log, which goes to standard error, and to PostgreSQL, which role this process has."""
    if os.environ.get(_NAME_IN_POSTGRESQL, _OURS).startswith(_OURS):  # a name that somebody else chose is kept
        os.environ[_NAME_IN_POSTGRESQL] = f"{_OURS} {role}"
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable(f"%(asctime)s {role} %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(LogLimit())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for talkative in ("alembic", "uvicorn"):
        logging.getLogger(talkative).setLevel(logging.WARNING)


def stop_on_signals(stop: Callable[[], object], *, ends_with_stdin: bool) -> None:
    """Call `stop` on SIGTERM and SIGINT; with `ends_with_stdin`, on SIGTERM and when the parent ends.

    SIGHUP, too, is a stop where there is a terminal, which was closed then; elsewhere somebody takes it for a call to
    read files again, so that it is answered by a line in the log.
    """
    for number, act in _actions(stop):
        # In a thread: the main one may hold what `act` needs, the lock of an event that it waits for, or of the log.
        signal.signal(number, lambda *_, act=act: threading.Thread(target=act, name="signal").start())
    if ends_with_stdin:
        _leave_with_parent(stop)


def run_in_loop(
    main: Callable[[asyncio.Event], Coroutine[Any, Any, int]],
    *,
    ends_with_stdin: bool = False,
    stopping: Callable[[], object] = lambda: None,
) -> int:
    """Run `main` with an event that is set as in `stop_on_signals`; `stopping` is called before that.

    Returns:
        The result of `main`.
    """

    async def run() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stop_in_order() -> None:
            try:
                stopping()
            finally:  # also where nobody reads what it prints any more
                stop.set()

        for number, act in _actions(stop_in_order):
            loop.add_signal_handler(number, act)
        if ends_with_stdin:
            _leave_with_parent(lambda: loop.call_soon_threadsafe(stop.set))
        return await main(stop)

    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.run(run())
    return uvloop.run(run())


@contextmanager
def explains_folder_errors(config: Config) -> Iterator[None]:
    """Turn errors of the data folder into an error that names the setting.

    Raises:
        TraceGradeError: in place of system errors that a later start would meet again.
    """
    try:
        yield
    except OSError as error:
        if not isinstance(error, _WRONG_FOLDER) and error.errno != errno.EROFS:
            raise
        raise TraceGradeError(
            f"data_dir: cannot use {str(config.data_path)!r}: {error.filename}: {error.strerror}; expected a folder "
            "that this user may write to, made if missing"
        ) from None


def role_command(role: str, config: Config, config_path: Path | None) -> list[str]:
    """The command that starts a role of these settings; it ends with the process that started it."""
    command = [sys.executable, "-m", "tracegrade", "serve", "--role", role, "--ends-with-stdin"]
    command += ["--data-dir", str(config.data_path)]
    return command if config_path is None else [*command, "-c", str(config_path)]


class _Printable(logging.Formatter):
    """One line for each message, safe on a terminal: messages quote text of senders and other servers."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def _actions(stop: Callable[[], object]) -> Iterator[tuple[signal.Signals, Callable[[], object]]]:
    """What is done on each signal."""
    yield from ((number, stop) for number in _SIGNALS)
    if _HANGUP is not None and signal.getsignal(_HANGUP) != signal.SIG_IGN:  # as nohup has it
        yield _HANGUP, stop if sys.stderr.isatty() else _say_what_is_read_again


def _say_what_is_read_again() -> None:
    logger.info("SIGHUP: rules, tokens and certificates are read again by themselves; other settings need a restart")


def _leave_with_parent(stop: Callable[[], object]) -> None:
    # Ctrl-C, and a terminal that is closed, reach both processes; the parent ends us when it is done.
    for number in filter(None, (signal.SIGINT, _HANGUP)):
        signal.signal(number, signal.SIG_IGN)
    stop_when_parent_ends(stop)
