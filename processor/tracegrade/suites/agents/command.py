"""An agent that is a command: started for each unit, without a shell, in an environment that says where spans go.

It gets the prompt as standard input, and in the place of the argument ``{prompt}``. Its standard output is not kept.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import E2BIG
from threading import Event, Lock
from time import monotonic
from typing import IO
from urllib.parse import quote

from tracegrade import semconv as s
from tracegrade.display import printable_lines
from tracegrade.model.errors import TraceGradeError
from tracegrade.receive.environment import exporting_to
from tracegrade.suites.agents.target import PROMPT
from tracegrade.suites.models.pace import Stopped

_TAIL_BYTES = 2000
_LOOK_S = 0.05
_GRACE_S = 2.0
_ENDED_BY_SIGNAL = 128  # as shells number it


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command, or a request, ended; ``exit_code`` is None where it was not started, or did not end in time.

    Of one that a signal ended, it is 128 and the signal's number.
    """

    problem: str = ""
    error_type: str = ""
    exit_code: int | None = None
    stderr: str = ""


def environment_of(
    endpoint: str, case: str, run: str, repetition: int, trace_id: bytes, root_id: bytes, outer: Mapping[str, str]
) -> dict[str, str]:
    """What the command of one unit has as its environment: `outer`, and where its spans go and what they say."""
    environment = dict(outer)
    for name, value in exporting_to(endpoint, outer).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    own = {s.CASE_ID: case, s.RUN: run, s.SUITE_REPETITION: str(repetition), s.SUITE_UNIT: trace_id.hex()}
    kept = [item for item in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",") if item.strip()]
    kept = [item for item in kept if item.partition("=")[0].strip() not in own]
    said = [f"{key}={quote(value, safe='')}" for key, value in own.items()]
    environment["OTEL_RESOURCE_ATTRIBUTES"] = ",".join([*kept, *said])
    environment["TRACEPARENT"] = traceparent(trace_id, root_id)
    environment.pop("TRACESTATE", None)
    return environment


def traceparent(trace_id: bytes, span_id: bytes) -> str:
    """The context of a unit, sampled. Source: https://www.w3.org/TR/trace-context/#traceparent-header."""
    return f"00-{trace_id.hex()}-{span_id.hex()}-01"


class Commands:
    """The commands of one run that are under way; `close` ends them."""

    def __init__(self, words: Sequence[str], timeout_s: float, stop: Event) -> None:
        """Start nothing yet."""
        self._words = words
        self._timeout_s = timeout_s
        self._stop = stop
        self._lock = Lock()
        self._under_way: set[subprocess.Popen[bytes]] = set()

    def run(self, prompt: str, environment: Mapping[str, str]) -> Ended:
        """Run the command to its end.

        Raises:
            TraceGradeError: it cannot be started, whatever the prompt.
            Stopped: the run ended meanwhile; the command is ended, too.
        """
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(prompt.encode(errors="replace"))
            stdin.seek(0)
            try:
                process = self._started(prompt, environment, stdin, stderr)
            except ValueError as error:
                return Ended(f"the command was not started: {error}", "not_started")
            except OSError as error:
                if error.errno == E2BIG:
                    why = f"the command was not started: the prompt is too long for an argument; leave {PROMPT} out"
                    return Ended(f"{why}, standard input has it too", "not_started")
                raise TraceGradeError(
                    f"{self._words[0]!r} cannot be started: {error.strerror}; expected a program and its arguments"
                ) from None
            try:
                code = self._waited(process)
            finally:
                _end(process)
                with self._lock:
                    self._under_way.discard(process)
            tail = _tail(stderr)
        said = f": {tail.splitlines()[-1].strip()}" if tail.strip() else ""
        if code is None:
            return Ended(f"the agent took longer than {self._timeout_s:g} s and was ended", "timeout", None, tail)
        if code < 0:
            why = f"the agent was ended by {_signal_name(-code)}{said}"
            return Ended(why, "exit_code", _ENDED_BY_SIGNAL - code, tail)
        return Ended(f"the agent ended with exit code {code}{said}" if code else "", "exit_code", code, tail)

    def close(self) -> None:
        """End what is under way, and what it started."""
        with self._lock:
            left = list(self._under_way)
        for process in left:
            _end(process)

    def _started(
        self, prompt: str, environment: Mapping[str, str], stdin: IO[bytes], stderr: IO[bytes]
    ) -> "subprocess.Popen[bytes]":
        words = [word.replace(PROMPT, prompt) for word in self._words]
        with self._lock:  # else `close` could come between starting and noting
            if self._stop.is_set():
                raise Stopped
            process = subprocess.Popen(
                words,
                env=dict(environment),
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,  # so that what it starts can be ended with it
            )
            self._under_way.add(process)
        return process

    def _waited(self, process: "subprocess.Popen[bytes]") -> int | None:
        deadline_s = monotonic() + self._timeout_s
        while monotonic() < deadline_s:
            if self._stop.is_set():
                raise Stopped
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_LOOK_S)
        return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the command and what it started, gently first; nothing where it has ended by itself."""
    if process.poll() is not None:
        return
    for how, grace_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
            break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # what it started and left


def _tail(stream: IO[bytes]) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _TAIL_BYTES))
    return printable_lines(stream.read().decode(errors="replace").replace("\r\n", "\n").strip())


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
