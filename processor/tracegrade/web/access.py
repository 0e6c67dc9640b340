"""Who may see the page and use the API: requests with a bearer token, and sessions of browsers that showed one once.

Without ``web.auth``, only users of this machine may. If a browser takes another site for this one (DNS rebinding), it
calls us by the name of that site, and is refused. No other site can make a browser change anything here, or open a
WebSocket, with or without a token.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from urllib.parse import quote, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tracegrade.access.caller import Caller
from tracegrade.access.settings import AccessSettings
from tracegrade.access.tokens import MadeTokens
from tracegrade.access.wrong_tokens import WrongTokens
from tracegrade.config import WebSettings
from tracegrade.document.address import is_loopback
from tracegrade.receive.auth import BearerTokens
from tracegrade.receive.http_connection import CLIENT_SUBJECTS
from tracegrade.receive.http_head import names_this_machine
from tracegrade.receive.settings import split_endpoint
from tracegrade.web.forms import posted
from tracegrade.web.problem import problem
from tracegrade.web.proxied import NotBelieved, ProxiedUsers
from tracegrade.web.render import page
from tracegrade.web.rights import caller_without_token, note_token

SESSION_S = 12 * 3600.0

_MAX_SESSIONS = 10_000
_MAX_FORM_BYTES = 8192
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN = ("/static/",)
_NOBODY = Caller(frozenset())


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: int
    type: str
    title: str
    detail: str
    headers: dict[str, str]


class Access:
    """Passes requests to the app below, or answers them itself."""

    def __init__(
        self,
        app: ASGIApp,
        settings: WebSettings | None,
        made: MadeTokens | None = None,
        access: AccessSettings | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; without settings, only this machine has access.

        Args:
            app: answers those who are let in.
            settings: of the page.
            made: the tokens that ``tracegrade tokens`` made.
            access: names the proxies that sign users in, and the tenants of certificates.
            now_s: for tests.

        Raises:
            TraceGradeError: the file of tokens cannot be read, or holds none.
        """
        settings = settings or WebSettings()
        self._app = app
        self._tokens = None if settings.auth is None else BearerTokens("web.auth", settings.auth, made)
        access = access or AccessSettings()
        self._proxied = ProxiedUsers(access) if access.user_header or access.tenant_header else None
        self._by_subject = access.tenants_by_subject
        self._without_token = caller_without_token(settings)
        self._only_here = self._tokens is None and is_loopback(split_endpoint(settings.endpoint)[0])
        self._secure = settings.tls is not None
        self._cookie = "__Host-tracegrade" if self._secure else "tracegrade"
        self._sessions = _Sessions(now_s)
        self._failures = WrongTokens(now_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or the handshake of a WebSocket."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        is_handshake = scope["type"] == "websocket"
        connection: HTTPConnection = HTTPConnection(scope) if is_handshake else Request(scope, receive)
        note_token(scope, self._caller(connection) or _NOBODY, partial(self._is_let_in, connection))
        if isinstance(connection, Request):
            answer = await self._answer(connection)
        else:
            answer = self._answer_to_handshake(connection)
        await (self._app if answer is None else answer)(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        """The answer instead of the app's; None to let the app answer."""
        path = request.scope["path"]
        if self._is_wrong_host(request):
            return _refused(request, _WRONG_HOST)
        if request.method not in _SAFE and _is_from_another_site(request):
            return _refused(request, _OTHER_SITE)
        if "\0" in path or b"%00" in request.scope["query_string"]:
            return _refused(request, _NUL)
        if path.startswith(_OPEN):
            return None
        if (refusal := self._not_believed(request)) is not None:
            return _refused(request, refusal)
        if self._tokens is None:
            return None
        if path == "/login":
            return await self._log_in(request, self._tokens)
        if path == "/logout" and request.method == "POST":
            return self._log_out(request.cookies.get(self._cookie))
        refusal = self._refusal(request)
        if refusal is None:
            return None
        is_asked_to_sign_in = (
            "authorization" not in request.headers and not path.startswith("/api/") and request.method in _SAFE
        )
        if is_asked_to_sign_in:
            query = request.scope["query_string"].decode("latin-1")
            wanted = quote(path + (f"?{query}" if query else ""), safe="")
            return RedirectResponse(f"/login?next={wanted}", 303)
        return _refused(request, refusal)

    def _answer_to_handshake(self, connection: HTTPConnection) -> Response | None:
        """The answer instead of the app's to the handshake of a WebSocket; None to let the app answer.

        A browser opens a WebSocket for a page of any site, with our cookie and without asking: so where it comes from
        is always looked at, as with requests that change something.
        """
        refusal = None
        if self._is_wrong_host(connection):
            refusal = _WRONG_HOST
        elif _is_from_another_site(connection) or _has_other_origin(connection):
            refusal = _OTHER_SITE
        else:
            refusal = self._not_believed(connection) or self._refusal(connection)
        return None if refusal is None else _problem(refusal)

    def _is_wrong_host(self, connection: HTTPConnection) -> bool:
        # Starlette's TrustedHostMiddleware takes names, but not all addresses of this machine in any spelling.
        return self._only_here and not names_this_machine(connection.headers.get("host", ""))

    def _not_believed(self, connection: HTTPConnection) -> _Refusal | None:
        """Why a header about the caller is refused; None when it is not, or there is none."""
        try:
            if self._proxied is not None:
                self._proxied.of_tenant(self._known(connection) or _NOBODY, connection)
        except NotBelieved as error:
            return _Refusal(403, "untrusted-header", "Not a trusted proxy", str(error), {})
        return None

    def _refusal(self, connection: HTTPConnection) -> _Refusal | None:
        """Why a caller is not let in by session or token; None when it is."""
        if self._is_let_in(connection):
            return None  # even after failed attempts of others: behind a proxy, all come from one address
        if "authorization" not in connection.headers:
            return _no_token("it has no header 'authorization'")
        address = _address(connection)
        if (wait_s := self._failures.wait_s(address)) > 0:
            return _too_many(wait_s)
        self._failures.add(address)
        return _no_token("its token is not accepted")

    def _token_of_session(self, connection: HTTPConnection) -> str:
        session = connection.cookies.get(self._cookie)
        return "" if session is None else self._sessions.token_of(session)

    def _is_let_in(self, connection: HTTPConnection) -> bool:
        return self._caller(connection) is not None

    def _caller(self, connection: HTTPConnection) -> Caller | None:
        """Who calls, of the tenant that a trusted proxy names; None for a stranger."""
        try:
            caller = self._known(connection)
            return caller if caller is None or self._proxied is None else self._proxied.of_tenant(caller, connection)
        except NotBelieved:
            return None  # it was refused before

    def _known(self, connection: HTTPConnection) -> Caller | None:
        """Who calls: by user, session, token or certificate; None for a stranger.

        Raises:
            NotBelieved: a header about the caller is not to be believed.
        """
        caller, subjects = self._by_token(connection), connection.scope.get(CLIENT_SUBJECTS, ())
        if caller is None or not subjects:
            return caller
        of_subject = next((self._by_subject[name] for name in subjects if name in self._by_subject), None)
        return replace(caller, name=caller.name or f"certificate: {subjects[-1]}", tenant=caller.tenant or of_subject)

    def _by_token(self, connection: HTTPConnection) -> Caller | None:
        """Who calls, by the token that was shown now, or at the beginning of the session; None for a stranger."""
        if (tokens := self._tokens) is None:
            return self._without_token
        if self._proxied is not None and (user := self._proxied.caller(connection)) is not None:
            return user
        if (caller := tokens.caller(self._token_of_session(connection))) is not None:
            return caller
        scheme, _, token = connection.headers.get("authorization", "").strip().partition(" ")
        return tokens.caller(token.strip()) if scheme.lower() == "bearer" else None

    async def _log_in(self, request: Request, tokens: BearerTokens) -> Response:
        if request.method == "GET":
            return _form(request, request.query_params.get("next", "/"), "", 200)
        if request.method != "POST":
            return _refused(
                request, _Refusal(405, "method-not-allowed", "Method not allowed", "", {"Allow": "GET, POST"})
            )
        given = await posted(request, _MAX_FORM_BYTES) or {}
        wanted = given.get("next", "/")
        token = given.get("token", "").strip()
        if tokens.caller(token) is None:
            address = _address(request)
            if (wait_s := self._failures.wait_s(address)) > 0:
                message = f"Too many wrong tokens; try again in {wait_s:.0f} s."
                return _form(request, wanted, message, 429, {"Retry-After": f"{wait_s:.0f}"})
            self._failures.add(address)
            return _form(request, wanted, "This token is not valid.", 401)
        answer = RedirectResponse(_local(wanted), 303)
        answer.set_cookie(
            self._cookie,
            self._sessions.begin(token),
            max_age=int(SESSION_S),
            secure=self._secure,
            httponly=True,
            # Not strict, so that a user who follows a link from an alert is signed in. Requests that change something
            # are refused by `_is_from_another_site`, and lax also sends no cookie with them.
            samesite="lax",
        )
        return answer

    def _log_out(self, session: str | None) -> Response:
        if session is not None:
            self._sessions.end(session)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(self._cookie, secure=self._secure, httponly=True, samesite="lax")
        return answer


class _Sessions:
    """Browsers that showed a token, in memory: they end with the process, and with the token.

    A signed cookie that holds the session (as Starlette's SessionMiddleware writes) could not be ended: a copy of it
    would stay valid after signing out.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._begun: OrderedDict[bytes, tuple[float, str]] = OrderedDict()  # by digest, so that no secret is looked up

    def begin(self, token: str) -> str:
        """A new session's secret."""
        secret = secrets.token_urlsafe(32)
        self._begun[_digest(secret)] = (self._now_s() + SESSION_S, token)
        if len(self._begun) > _MAX_SESSIONS:
            self._begun.popitem(last=False)
        return secret

    def token_of(self, secret: str) -> str:
        """The token that was shown for the session; "" when there is no such session, or it has ended."""
        ends_s, token = self._begun.get(_digest(secret), (0.0, ""))
        return token if self._now_s() < ends_s else ""

    def end(self, secret: str) -> None:
        """End the session."""
        self._begun.pop(_digest(secret), None)


_WRONG_HOST = _Refusal(
    421,
    "wrong-host",
    "Not this machine's name",
    "without web.auth, only this machine has access: call the page by localhost or 127.0.0.1, not by another name, "
    "or set web.auth",
    {},
)
# PostgreSQL takes it in no text, not even in one that is looked up.
_NUL = _Refusal(400, "invalid-parameter", "Wrong address", "expected an address without the character NUL (%00)", {})
_OTHER_SITE = _Refusal(
    403, "other-site", "Asked for by another site", "a page of another site may not change anything here", {}
)


def _no_token(why: str) -> _Refusal:
    detail = f"the request is not taken: {why}. Send 'authorization: Bearer TOKEN', or open /login in a browser"
    return _Refusal(401, "unauthenticated", "A token is needed", detail, {"WWW-Authenticate": "Bearer"})


def _too_many(wait_s: float) -> _Refusal:
    headers = {"Retry-After": f"{wait_s:.0f}"}
    return _Refusal(429, "too-many-failures", "Too many wrong tokens", f"try again in {wait_s:.0f} s", headers)


def _problem(refusal: _Refusal) -> Response:
    return problem(refusal.status, refusal.type, refusal.title, refusal.detail, refusal.headers)


def _refused(request: Request, refusal: _Refusal) -> Response:
    if request.scope["path"].startswith("/api/"):
        return _problem(refusal)
    answer = page(request, "error.html", status=refusal.status, title=refusal.title, message=refusal.detail)
    answer.headers.update(refusal.headers)
    return answer


def _form(request: Request, wanted: str, message: str, status: int, headers: dict[str, str] | None = None) -> Response:
    answer = page(request, "login.html", status=status, title="Sign in", message=message, next=_local(wanted))
    answer.headers.update(headers or {})
    return answer


def _local(wanted: str) -> str:
    """`wanted` if it is an address of this page, else the start page: signing in never leads to another site."""
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/"
    stays = (
        wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable() and "\\" not in wanted
    )
    return wanted if stays and not parts.scheme and not parts.netloc else "/"


def _is_from_another_site(connection: HTTPConnection) -> bool:
    """Whether a browser says that the request comes from another site; other programs say nothing."""
    site = connection.headers.get("sec-fetch-site")
    return _has_other_origin(connection) if site is None else site not in ("same-origin", "none")


def _has_other_origin(connection: HTTPConnection) -> bool:
    origin = connection.headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc != connection.headers.get("host")
    except ValueError:
        return True


def _address(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client is not None else ""


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()
