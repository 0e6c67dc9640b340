"""Notes in the access log who was answered what; around everything that is not open to all."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracegrade.access.log import Access, forgotten
from tracegrade.access.rights import RIGHTS
from tracegrade.web.rights import caller_in, rights_asked

# Of a query, what names something that is stored; the rest chooses among it.
_NAMING = frozenset(
    {"tenant", "run", "rule", "trace_id", "session", "case", "job", "a", "b", "run_a", "run_b", "before"}
)
# The page's own files; and marks of what is newest, which every open page asks for again and again, and which name
# nothing.
_LEFT_OUT = ("/static/", "/live", "/login", "/logout")


class LogsAccess:
    """Passes requests to the app below, and notes those of callers who were let in, as their answer begins."""

    def __init__(self, app: ASGIApp, note: Callable[[Access], None]) -> None:
        self._app = app
        self._note = note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or the handshake of a WebSocket."""
        if scope["type"] not in ("http", "websocket") or scope["path"].startswith(_LEFT_OUT):
            await self._app(scope, receive, send)
            return
        path, query = scope["path"], scope["query_string"]
        method = scope.get("method", "WEBSOCKET")

        async def send_noted(message: Message) -> None:
            status = _STATUS.get(message["type"], lambda message: None)(message)
            if status is not None:
                self._note_answer(scope, method, path, query, status)
            await send(message)

        await self._app(scope, receive, send_noted)

    def _note_answer(self, scope: Scope, method: str, path: str, query: bytes, status: int) -> None:
        caller = caller_in(scope)
        if caller is None:  # a stranger, who was told nothing
            return
        asked = rights_asked(scope)
        parameters = scope.get("path_params", {})
        if scope["path"] != path:  # taken apart as it was sent
            path = scope["path"]
            values = {name: unquote(str(value)) for name, value in parameters.items()}
        else:
            values = {name: str(value) for name, value in parameters.items()}
        named = {name: forgotten(value) if name == "user_id" else value for name, value in values.items()}
        given = parse_qsl(query.decode("latin-1"), max_num_fields=1000) if query else []
        named |= {name: value for name, value in given if name in _NAMING and value}
        right = max(asked, key=RIGHTS.index, default="")
        operation = f"{method} {_template(path, parameters)}"
        is_seen = caller.may("read-values") and status < 400
        self._note(Access(caller.name, caller.tenant, right, operation, named, status, is_seen))


_STATUS: dict[str, Callable[[Message], int]] = {
    "http.response.start": lambda message: int(message["status"]),
    "websocket.http.response.start": lambda message: int(message["status"]),
    "websocket.accept": lambda message: 101,
}


def _template(path: str, parameters: Mapping[str, Any]) -> str:
    """The address with the names of its parts in place of what they are."""
    for name, value in parameters.items():
        head, found, tail = path.rpartition(f"/{value}")
        path = f"{head}/{{{name}}}{tail}" if found else path
    return path
