"""Who acts by a form or an operation, and how the texts that they type are redacted."""

from starlette.requests import HTTPConnection

from tracegrade.alert.noting import Author
from tracegrade.receive.typed_text import TypedText
from tracegrade.web.rights import token_of

LOCAL = "local"
"""The name of whoever acts where nobody has to say who they are: on loopback, without ``web.auth``."""


def author_of(connection: HTTPConnection) -> Author:
    """Who makes a request, as an author."""
    caller = token_of(connection)
    texts: TypedText = connection.app.state.typed_text
    return Author(caller.name or LOCAL, caller.tenant, texts.redacted, texts.redacted_name)
