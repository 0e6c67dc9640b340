"""Asks one provider: ``POST {base_url}/chat/completions``, tried again where that helps, bounded in time and bytes.

Source: https://platform.openai.com/docs/api-reference/chat/create, and what servers of the same interface answer.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError, ProxyError, SSLError
from urllib3.exceptions import TimeoutError as LateError

from tracegrade.display import printable, without_secrets
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue, encodable
from tracegrade.suites.models.connections import Answered, Connections, NotWhole, TooLarge
from tracegrade.suites.models.pace import Pace, Stopped
from tracegrade.suites.models.settings import ProviderSettings

LONGEST_WAIT_S = 60.0
"""A provider that asks for a longer wait is not asked again."""

_MOST_UNANSWERED = 3  # requests in a row, each with all its attempts, before no further case is asked
_FIRST_DELAY_S = 0.5
_SHOWN = 300  # characters of an answer that is an error
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FOR_EVERY_CASE = frozenset({401, 403, 404, 405})
_REFUSES_A_MEMBER = frozenset({400, 422, 501})
_MAY_REFUSE_A_MEMBER = frozenset({404, 405, 415})
_TOOL_CHOICE = re.compile(rb"tool[_ ]choice", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Retry:
    """What is known of another attempt: after ``after_s`` seconds, where the provider says so.

    ``unconnected``: there was not even a connection.
    """

    after_s: float | None = None
    unconnected: bool = False


class ModelError(TraceGradeError):
    """A model gave no answer that can be used.

    ``status`` is that of HTTP, None where there was no answer. ``for_all``: every other request would end the same, as
    with a wrong key. ``refuses_required``: the same request with another tool choice may be answered. ``fell_back``:
    ``auto`` was asked for, since ``required`` had been refused.

    ``retry``: the same request may go better the next time; None: it would not.
    """

    fell_back = False

    def __init__(
        self,
        message: str,
        status: int | None = None,
        *,
        for_all: bool = False,
        refuses_required: bool = False,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.for_all = for_all
        self.refuses_required = refuses_required
        self.retry = retry


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider answered, and when the attempt that it answered began and ended, in ns since 1970 UTC."""

    document: dict[str, JsonValue]
    begun_ns: int
    ended_ns: int


class _Unanswered:
    """Which requests to one server had no answer, to tell a server that is not there from a hard case."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._was_answered = False
        self._in_a_row = 0

    def answered(self) -> None:
        """Note a whole answer, an error too."""
        with self._lock:
            self._was_answered = True
            self._in_a_row = 0

    def ends_all(self, *, unconnected: bool) -> str:
        """Note a request without an answer; why no further case is to be asked, "" if one is.

        Args:
            unconnected: no attempt had a connection.
        """
        with self._lock:
            self._in_a_row += 1
            if unconnected and not self._was_answered:
                return "; no further case is asked"
            if self._in_a_row >= _MOST_UNANSWERED and (unconnected or not self._was_answered):
                return f"; {self._in_a_row} requests in a row had no answer, so no further case is asked"
        return ""


class ModelClient:
    """Requests to one provider over kept-alive connections; used by several threads."""

    def __init__(
        self,
        provider: ProviderSettings,
        stop: threading.Event,
        pace: Pace | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Connect to nothing yet.

        Args:
            provider: where, and with which key.
            stop: set to end all waiting.
            pace: how often; by the settings if None.
            now: a clock, in s since 1970 UTC.
        """
        self._provider = provider
        self._stop = stop
        self._pace = pace or Pace(provider.a_minute, stop)
        self._now = now
        self._unanswered = _Unanswered()
        self._url = f"{provider.base_url}/chat/completions"
        self._headers = {name: value.get_secret_value() for name, value in provider.headers.items()}
        if provider.api_key is not None:
            self._headers["authorization"] = f"Bearer {provider.api_key.get_secret_value()}"
        timeout = urllib3.Timeout(total=provider.timeout)
        self._connections = Connections(provider.base_url, provider.at_a_time, timeout, stop)

    def ask(self, body: dict[str, Any]) -> Answer:
        """The answer to one request, tried again where that helps.

        Raises:
            ModelError: there is none; the message has no secret.
            Stopped: the run ended meanwhile.
        """
        sent = {**self._provider.extra_body, **body}
        failed: list[ModelError] = []
        while True:
            self._pace.turn()
            begun_ns = time.time_ns()
            try:
                return Answer(self._attempt(sent), begun_ns, time.time_ns())
            except ModelError as error:
                if self._stop.is_set():  # then `close` may be what broke it off
                    raise Stopped from None
                if error.retry is None:
                    raise
                failed.append(error)
                self._wait_after(failed)

    def _wait_after(self, failed: Sequence[ModelError]) -> None:
        """Wait as long as is asked for before another attempt; raises where there is none."""
        error, attempt = failed[-1], len(failed)
        if attempt == self._provider.attempts:
            tried = f"; tried {attempt} times" if attempt > 1 else ""
            ends_all = ""
            if all(one.status is None for one in failed):
                ends_all = self._unanswered.ends_all(
                    unconnected=all(one.retry is not None and one.retry.unconnected for one in failed)
                )
            raise ModelError(
                f"{error}{tried}{ends_all}",
                error.status,
                for_all=bool(ends_all),
                refuses_required=error.refuses_required,
            ) from None
        if error.retry is not None and (after_s := error.retry.after_s) is not None:
            if after_s > LONGEST_WAIT_S:
                asked = f"{error}; it asks to wait {after_s:.0f} s, longer than {LONGEST_WAIT_S:.0f} s"
                raise ModelError(asked, error.status, refuses_required=error.refuses_required) from None
            self._pace.hold(after_s)  # for all requests to this provider
        else:
            self._pace.pause(min(LONGEST_WAIT_S, _FIRST_DELAY_S * 2 ** (attempt - 1)))

    def _attempt(self, body: dict[str, Any]) -> dict[str, JsonValue]:
        within_s = self._provider.timeout
        try:
            answered = self._connections.post(self._url, body, self._headers, within_s)
            self._unanswered.answered()
        except TooLarge as error:
            raise ModelError(f"{self._provider.base_url} {error}") from None
        except (HTTPError, OSError, ValueError) as error:
            late = isinstance(error, LateError) and not isinstance(error, NewConnectionError)
            whole = "whole " if isinstance(error, NotWhole) else ""
            what = f"no {whole}answer within {within_s:g} s" if late else "cannot be reached"
            kind = "" if late else f": {type(error).__name__}"  # its message may hold the address and headers
            # Certificates and proxies, too: what is wrong with them is wrong for every request.
            unconnected = isinstance(error, NewConnectionError | ProxyError | SSLError)
            raise ModelError(f"{self._provider.base_url} {what}{kind}", retry=Retry(unconnected=unconnected)) from None
        if answered.status != 200:
            raise self._refused(answered, is_required=body.get("tool_choice") == "required")
        return self._document(answered.text)

    def _refused(self, answered: Answered, *, is_required: bool) -> ModelError:
        status, headers, text = answered
        is_named = is_required and _TOOL_CHOICE.search(text) is not None
        is_refused = is_required and status in _REFUSES_A_MEMBER
        said = self._error_message(text)
        message = f"{self._provider.base_url} answers {status}" + (f": {said}" if said else "")
        if 300 <= status < 400:
            there = without_secrets(headers.get("location", ""))
            message += f"; redirects (to {printable(there)[:_SHOWN]}) are not followed, since the key would go there"
            return ModelError(f"{message}; set base_url", status, for_all=True)
        if is_named and (status >= 500 or status in _MAY_REFUSE_A_MEMBER):
            # Not tried again: llama.cpp without --jinja, for one, answers 500 however often it is asked.
            return ModelError(message, status, for_all=status in _FOR_EVERY_CASE, refuses_required=True)
        if status in _WORTH_ANOTHER_TRY or status >= 500:
            wait_s = self._asked_wait(headers)
            return ModelError(message, status, refuses_required=is_refused, retry=Retry(wait_s))
        return ModelError(message, status, for_all=status in _FOR_EVERY_CASE, refuses_required=is_refused)

    def _error_message(self, text: bytes) -> str:
        """What an error says for people: ``error.message`` where there is one, else the beginning of the text."""
        shown = text[: 8 * _SHOWN].decode(errors="replace")
        try:
            value = json.loads(text)
            found = value.get("error", value.get("detail", value.get("message", shown)))
            shown = found if isinstance(found, str) else str(found.get("message", shown))
        except (ValueError, AttributeError, RecursionError):
            pass
        return printable(self._provider.without_secrets(" ".join(shown.split())))[:_SHOWN]

    def _asked_wait(self, headers: Any) -> float | None:
        """Retry-After in s; a number of s, or a time."""
        written = headers.get("retry-after")
        if written is None:
            return None
        try:
            return max(0.0, float(written))
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(written).timestamp() - self._now())
        except ValueError:
            return None

    def _document(self, text: bytes) -> dict[str, JsonValue]:
        try:
            own = self._provider.without_secrets(text.decode())
            value = encodable(json.loads(own, parse_constant=_refuse_constant))
        except (ValueError, RecursionError):
            raise ModelError(f"{self._provider.base_url} answers something that is not JSON") from None
        if not isinstance(value, dict):
            raise ModelError(f"{self._provider.base_url} answers JSON that is not an object")
        if "choices" not in value and value.get("error"):
            raise ModelError(f"{self._provider.base_url} answers an error: {self._error_message(text)}")
        return value

    def close(self) -> None:
        """Close all connections. After the run ended: what is under way is broken off, so that no model works on it."""
        self._connections.close()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
