"""What callers may do: one function that every page, operation and file asks.

=============== ====================================================================
right           allows
=============== ====================================================================
``send``        to send spans
``read``        to see what is stored
``read-values`` to see the arguments and outputs of calls too
``run``         to pin baselines, change the labels of runs, write suites, and backtest rules
``admin``       to delete, and to accept alerts
=============== ====================================================================

Tokens have no roles: who shows one that is accepted may do everything, and so may programs on this machine while no
token is asked for. Callers on other machines of whom nothing is known may read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from tracegrade.receive.settings import ListenSettings, is_loopback, split_endpoint
from tracegrade.web.problem import Refusal

Right: TypeAlias = Literal["send", "read", "read-values", "run", "admin"]

RIGHTS: tuple[Right, ...] = get_args(Right)

_IN_SCOPE = "tracegrade.token"
_VALID_IN_SCOPE = "tracegrade.token_is_valid"


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a caller by the token that was shown, or without one by where the call came from.

    ``owner`` stands for the token without giving it away: a hash; "" without a token.
    """

    rights: frozenset[Right]
    owner: str = ""


KNOWN = Token(frozenset(RIGHTS))
UNKNOWN = Token(frozenset({"read", "read-values"}))


def may(token: Token, right: Right) -> bool:
    """Whether the caller with `token` has `right`."""
    return right in token.rights


def token_for(settings: ListenSettings) -> Token:
    """What is known of the callers that a server with these settings lets in."""
    is_known = settings.knows_callers or is_loopback(split_endpoint(settings.endpoint)[0])
    return KNOWN if is_known else UNKNOWN


def note_token(scope: Scope, token: Token, is_valid: Callable[[], bool] = lambda: True) -> None:
    """Note who makes a request; done once, where the caller is let in.

    `is_valid` says whether the caller would be let in now, too: a token can be taken back, and a session ends.
    """
    scope[_IN_SCOPE] = token
    scope[_VALID_IN_SCOPE] = is_valid


def token_of(request: HTTPConnection) -> Token:
    """Who makes a request."""
    token: Token = request.scope[_IN_SCOPE]
    return token


def is_still_let_in(request: HTTPConnection) -> bool:
    """Whether who made a request would be let in now, too; answers that go on for long ask again and again."""
    is_valid: Callable[[], bool] = request.scope[_VALID_IN_SCOPE]
    return is_valid()


def check_right(request: HTTPConnection, right: Right) -> None:
    """Refuse a request of a caller who lacks `right`.

    Raises:
        Refusal: 403.
    """
    if not may(token_of(request), right):
        detail = f"this needs the right '{right}', which callers on other machines have only with web.auth"
        raise Refusal(403, "read-only", "Not from other machines", detail)


class Needs:
    """The app below, for callers who have `right`."""

    def __init__(self, app: ASGIApp, right: Right) -> None:
        self._app = app
        self.right = right

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises as `check_right`."""
        check_right(HTTPConnection(scope), self.right)
        await self._app(scope, receive, send)
