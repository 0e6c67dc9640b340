"""The files by which a server shows who it is and knows who calls, checked without one."""

from tracegrade.receive.auth import BearerTokens
from tracegrade.receive.certificate import read_certificate
from tracegrade.receive.settings import ListenSettings


def check_access(where: str, settings: ListenSettings) -> None:
    """Read the files of ``tls`` and ``auth`` once, as the server itself will; `where` is its path in the settings.

    Raises:
        ReceiverStartError: naming the file that is missing, unreadable or of the wrong kind.
    """
    if settings.tls is not None:
        read_certificate(where, settings.tls)
    if settings.auth is not None:
        BearerTokens(f"{where}.auth", settings.auth)
