"""Binds sockets when a receiver starts, so that a wrong address is reported at once."""

import socket
from errno import EADDRINUSE

from tracegrade.model.errors import TraceGradeError
from tracegrade.receive.settings import split_endpoint


class AddressTaken(TraceGradeError):
    """Something else listens there: a later attempt may succeed."""


def cannot_listen(where: str, endpoint: str, why: object, *, is_taken: bool = False) -> TraceGradeError:
    """The error for an address that cannot be bound; `where` names the option, or the setting by its path."""
    return (AddressTaken if is_taken else TraceGradeError)(
        f"{where}: cannot listen on {endpoint!r}: {why}; stop what listens there, or choose another address"
    )


def bound_socket(where: str, endpoint: str) -> socket.socket:
    """A TCP socket bound to `endpoint` and not yet listening.

    Raises:
        AddressTaken: something else listens there.
        TraceGradeError: it is none of this machine's.
    """
    host, port = split_endpoint(endpoint)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise cannot_listen(where, endpoint, error.strerror or error) from None
    try:
        # Without it a restart would wait for old connections to be forgotten. It does not let two listen at once.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        is_taken = error.errno == EADDRINUSE
        raise cannot_listen(where, endpoint, error.strerror or error, is_taken=is_taken) from None
    return bound
