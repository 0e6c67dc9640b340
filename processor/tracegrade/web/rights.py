"""What callers may do: one function that every page, operation and file asks.

`tracegrade.access.rights` says what each right allows. Who shows a token has the rights of that token; programs on this
machine may do everything while no token is asked for, and callers on other machines of whom nothing is known may read.
"""

from collections.abc import Callable, Set

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from tracegrade.access.caller import KNOWN, UNKNOWN, Caller
from tracegrade.access.rights import Right
from tracegrade.document.address import is_loopback
from tracegrade.receive.settings import ListenSettings, split_endpoint
from tracegrade.web.addresses import TENANT
from tracegrade.web.problem import Refusal, not_found

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_IN_SCOPE = "tracegrade.token"
_ASKED_IN_SCOPE = "tracegrade.rights"
_VALID_IN_SCOPE = "tracegrade.token_is_valid"


def caller_without_token(settings: ListenSettings) -> Caller:
    """What is known of the callers that a server with these settings lets in without a token."""
    is_known = settings.knows_callers or is_loopback(split_endpoint(settings.endpoint)[0])
    return KNOWN if is_known else UNKNOWN


def note_token(scope: Scope, caller: Caller, is_valid: Callable[[], bool] = lambda: True) -> None:
    """Note who makes a request; done once, where the caller is let in.

    `is_valid` says whether the caller would be let in now, too: a token can be taken back, and a session ends.
    """
    scope[_IN_SCOPE] = caller
    scope[_VALID_IN_SCOPE] = is_valid


def token_of(request: HTTPConnection) -> Caller:
    """Who makes a request."""
    caller: Caller = request.scope[_IN_SCOPE]
    return caller


def caller_in(scope: Scope) -> Caller | None:
    """Who made the request of `scope`; None for one who was not let in."""
    caller: Caller | None = scope.get(_IN_SCOPE)
    return None if caller is None or not caller.rights else caller


def rights_asked(scope: Scope) -> Set[Right]:
    """The rights that the request of `scope` was found to need."""
    asked: Set[Right] = scope.get(_ASKED_IN_SCOPE, set())
    return asked


def is_still_let_in(request: HTTPConnection) -> bool:
    """Whether who made a request would be let in now, too; answers that go on for long ask again and again."""
    is_valid: Callable[[], bool] = request.scope[_VALID_IN_SCOPE]
    return is_valid()


def tenant_of(connection: HTTPConnection) -> str:
    """The tenant that an address means: the one that it names, else that of the caller, else the usual one."""
    return connection.query_params.get("tenant") or token_of(connection).tenant or TENANT


def check_tenant(connection: HTTPConnection) -> None:
    """Refuse a request that names another tenant than its caller's, in the same words whether that exists or not.

    Raises:
        Refusal: 404.
    """
    named, own = connection.query_params.get("tenant"), token_of(connection).tenant
    if named and own is not None and named != own:
        raise not_found(f"tenant {named[:200]!r}")


def check_right(request: HTTPConnection, right: Right) -> None:
    """Refuse a request of a caller who lacks `right`.

    Raises:
        Refusal: 403.
    """
    caller = token_of(request)
    request.scope.setdefault(_ASKED_IN_SCOPE, set()).add(right)
    if caller.may(right):
        return
    if caller.name:
        detail = f"this needs the right '{right}', which '{caller.name}' has not"
        raise Refusal(403, "no-right", "Not allowed", detail)
    detail = f"this needs the right '{right}', which callers on other machines have only with web.auth"
    raise Refusal(403, "read-only", "Not from other machines", detail)


class Needs:
    """The app below, for callers who have `right`."""

    def __init__(self, app: ASGIApp, right: Right) -> None:
        self._app = app
        self.right = right

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises as `check_right`, and as `check_tenant` if it may change something."""
        connection = HTTPConnection(scope)
        check_right(connection, self.right)
        if scope.get("method") not in _SAFE:
            check_tenant(connection)
        await self._app(scope, receive, send)
