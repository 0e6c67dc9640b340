"""What ``tracegrade check`` does around a command: it receives its spans."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tracegrade.model.errors import CannotTell, TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import SourceReport
from tracegrade.receive.environment import exporting_to
from tracegrade.receive.listener import Listener
from tracegrade.receive.validate import REJECT_REASONS

# What senders do not send again.
_LOST_REQUESTS = frozenset({"undecodable", "too_dense"})
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_ENDED_BY_SIGNAL = 128  # as shells number it
NAME = "the command"
"""What the input of a command is called in messages."""

_NOTHING_CAME = """\
no span came from the command, so nothing was judged. It may be that
  - it calls no agent, or the agent's instrumentation is not installed or not switched on,
  - the program sets the address of its exporter itself: leave that to OTEL_EXPORTER_OTLP_ENDPOINT,
  - what sends runs elsewhere, as in a container: give it the variables OTEL_*, and a network in which it reaches this,
  - it ended before its spans were sent: call shutdown() of the tracer provider at its end."""


class Received:
    """Takes the requests of a command into files of one folder, which is then a SOURCE as that of ``replay``."""

    def __init__(self, folder: Path) -> None:
        """`folder` is there, and empty."""
        self._folder = folder
        self._requests = 0
        self._has_spans = False
        self.refused: dict[str, int] = {}
        """How many requests and spans were refused, and so are not judged, by reason."""

    def take(self, kind: Signal, payload: bytes) -> None:
        """Keep one request; raises `OSError` when it cannot be written."""
        if kind is Signal.METRICS:
            return
        # Files are read in the order of their names, and these say what is in them.
        path = self._folder / f"{self._requests:09d}.{kind.name.lower()}.binpb"
        try:
            path.write_bytes(payload)
        except OSError:
            path.unlink(missing_ok=True)  # half a request, which is sent again
            raise
        self._requests += 1
        self._has_spans |= kind is Signal.TRACES

    def run(self, command: Sequence[str]) -> int:
        """Run `command` to its end, with our standard streams, and take what it sends.

        Returns:
            Its exit code; 128 and the number of the signal that ended it.

        Raises:
            TraceGradeError: there is no such program, or it cannot be run.
        """
        with Listener(self.take) as listener:
            code = _run(command, _environment(listener.endpoint))
        self.refused = listener.refused()
        return code

    def sources(self, report: SourceReport) -> tuple[str, ...]:
        """What came, after `run`; what was rejected, and is not sent again, is noted in `report`.

        Raises:
            CannotTell: no span came.
        """
        for reason, number in self.refused.items():
            if reason in REJECT_REASONS:
                report.file(NAME).leave_out("span", number, [REJECT_REASONS[reason]])
            elif reason in _LOST_REQUESTS:
                report.file(NAME).leave_out("request", number, [reason])
            else:
                report.file(NAME).remarks.append(f"requests were refused, to be sent again: {number}, {reason}")
        if not self._has_spans:
            lines = [_NOTHING_CAME]
            lines += [f"Refused requests or spans: {number}, {reason}." for reason, number in self.refused.items()]
            raise CannotTell("\n".join(lines))
        return (str(self._folder),)


def _environment(endpoint: str) -> dict[str, str]:
    environment = dict(os.environ)
    for name, value in exporting_to(endpoint).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    try:
        process = subprocess.Popen(command, env=environment)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TraceGradeError(f"{command[0]!r} cannot be started: {reason}; expected a program after '--'") from None
    with _signals_passed_on(process):
        code = process.wait()
    return _ENDED_BY_SIGNAL - code if code < 0 else code


@contextmanager
def _signals_passed_on(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Signals that would end this process go to `process`, after whose end there is still something to do here."""
    from_keyboard = ("SIGINT", "SIGQUIT") if _is_in_foreground() else ()

    def pass_on(number: int, frame: FrameType | None) -> None:
        # A terminal sends them to every process in the foreground; twice, they mean "at once" to many programs.
        if signal.Signals(number).name not in from_keyboard:
            process.send_signal(number)

    before = {}
    for name in _PASSED_ON:
        if (number := getattr(signal, name, None)) is not None:
            before[number] = signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    """Whether the keys of a terminal send their signals to this process, and to those that it starts."""
    with suppress(OSError, AttributeError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False
