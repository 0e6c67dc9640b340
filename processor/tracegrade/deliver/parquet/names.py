"""Names of folders and files."""

from urllib.parse import quote

from tracegrade.model.short_hash import short_hash

_LONGEST_NAME = 200  # bytes in the name of a folder; file systems take 255


def tenant_folder(tenant: str) -> str:
    """The folder of a tenant within that of a table, as Hive names it."""
    return f"tenant={path_name(tenant)}"


def path_name(name: str) -> str:
    """`name` as part of a path: what is no letter, digit, ``-``, ``_``, ``.`` or ``~`` as ``%XX``, as Hive writes it.

    Readers of hive folders turn it back. One that is too long for a file system is cut, and ends in a hash.
    """
    safe = quote(name, safe="", errors="surrogatepass")
    if len(safe) <= _LONGEST_NAME:
        return safe
    digest = short_hash(name.encode("utf-8", "surrogatepass"))
    return f"{safe[: _LONGEST_NAME - 17].rpartition('%')[0] or safe[: _LONGEST_NAME - 17]}~{digest}"
