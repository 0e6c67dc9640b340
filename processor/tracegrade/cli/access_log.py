"""What commands change for good, in the access log of the data folder."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracegrade.access.rights import Right
    from tracegrade.config import Config


def note_command(config: "Config", operation: str, right: "Right", tenant: str | None = None, **named: str) -> None:
    """Note that this user did `operation`: before it is done, so that nothing is done that nobody noted.

    Raises:
        TraceGradeError: the log cannot be written.
    """
    import getpass

    from tracegrade.access.log import Access, AccessFiles
    from tracegrade.model.errors import TraceGradeError

    if config.access.log is None:
        return
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container, without a name
        user = "unknown"
    access = Access(f"command line: {user}", tenant, right, f"tracegrade {operation}", named)
    files = AccessFiles(config.data_path, config.access.log)
    try:
        files.write([access.line()])
    except OSError as error:
        raise TraceGradeError(
            f"{files.folder}: the access log cannot be written: {error.strerror}; nothing was done (access.log: null "
            "keeps none)"
        ) from None
