"""Access to servers: checks certificates and token files, and guards servers that cannot check tokens."""

from collections.abc import Mapping

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tracegrade.access.settings import AccessSettings
from tracegrade.access.tokens import MadeTokens
from tracegrade.document.address import is_loopback
from tracegrade.receive.auth import BearerTokens
from tracegrade.receive.certificate import read_certificate
from tracegrade.receive.http_connection import CLIENT_SUBJECTS
from tracegrade.receive.http_head import names_this_machine
from tracegrade.receive.ingest import Refused
from tracegrade.receive.settings import ListenSettings, split_endpoint


def check_access(where: str, settings: ListenSettings, made: MadeTokens) -> None:
    """Read the files of ``tls`` and ``auth`` once, as the server itself will; `where` is its path in the settings.

    Raises:
        TraceGradeError: naming the file that is missing, unreadable or of the wrong kind.
    """
    if settings.tls is not None:
        read_certificate(where, settings.tls)
    if settings.auth is not None:
        BearerTokens(f"{where}.auth", settings.auth, made)


def lets_nobody_in(servers: Mapping[str, ListenSettings | None], made: MadeTokens) -> str | None:
    """A warning of the servers, by their paths, whose ``auth`` asks for tokens that were made, where none was."""
    asking = [
        f"{where}.auth"
        for where, server in servers.items()
        if server is not None and (auth := server.auth) is not None and not auth.tokens and auth.token_file is None
    ]
    if not asking or made.digests():
        return None
    return f"{', '.join(asking)}: no token lets anybody in yet; 'tracegrade tokens new NAME --role ROLE' makes one"


def guarded(
    app: ASGIApp,
    where: str,
    settings: ListenSettings,
    made: MadeTokens | None = None,
    access: AccessSettings | None = None,
) -> ASGIApp:
    """`app` for those who show a token that may read: of `settings`, or one that was `made`.

    Without ``auth``, on loopback, it is for those who call by its name. It shows what is of all tenants: so it is for
    no token of one, and for no certificate of one and no header that names one, as `access` says.

    Raises:
        TraceGradeError: the file of tokens cannot be read, or holds none.
    """
    tokens = None if settings.auth is None else BearerTokens(f"{where}.auth", settings.auth, made)
    only_here = tokens is None and is_loopback(split_endpoint(settings.endpoint)[0])

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        answer = app
        if scope["type"] in ("http", "websocket"):
            connection = HTTPConnection(scope)
            headers = connection.headers
            if only_here and not names_this_machine(headers.get("host", "")):
                answer = PlainTextResponse(f"call it by localhost or 127.0.0.1, or set {where}.auth\n", 421)
            elif tokens is not None:
                address = connection.client.host if connection.client is not None else ""
                found = tokens.admitted(headers.get("authorization"), "read", address)
                if isinstance(found, Refused):
                    answer = _not_admitted(found)
                elif found.tenant is not None:
                    message = f"{where}: what is shown here is of all tenants, and the token {found.name!r} is of one"
                    answer = PlainTextResponse(f"{message}\n", 403)
            if answer is app and (one := _of_one_tenant(connection, access)) is not None:
                answer = PlainTextResponse(f"{where}: what is shown here is of all tenants, and {one}\n", 403)
        await answer(scope, receive, send)

    return guard


def _of_one_tenant(connection: HTTPConnection, access: AccessSettings | None) -> str | None:
    """Evidence of a request's tenant other than its token; None without any."""
    if access is None:
        return None
    if access.tenant_header is not None and access.tenant_header in connection.headers:
        return f"the header {access.tenant_header!r} names one"
    subjects = connection.scope.get(CLIENT_SUBJECTS, ())
    own = next((subject for subject in subjects if subject in access.tenants_by_subject), None)
    return None if own is None else f"the certificate {own!r} is of one"


def _not_admitted(refused: Refused) -> ASGIApp:
    status, headers = {
        "no_right": (403, {}),
        "too_many_failures": (429, {"Retry-After": str(refused.retry_after_s)}),
    }.get(refused.reason, (401, {"WWW-Authenticate": "Bearer"}))
    return PlainTextResponse(f"{refused.message}\n", status, headers)
