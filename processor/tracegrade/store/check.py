"""Whether a store can be used, as far as can be told at once: for the process that receives, before it listens.

That process has no store of its own. SQLAlchemy would make each of its starts a third slower and cost it 18 MiB; so a
file of SQLite is looked at without.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from tracegrade.store.version import unfit

_WAITS_S = 2


def check_store(url: str) -> None:
    """Refuse a store that no judge of this version can open, changing nothing that is there.

    What a later attempt may open is let through: a server that does not answer within seconds, a damaged file.

    Args:
        url: in SQLAlchemy's form.

    Raises:
        StoreError: tables of a newer version, a wrong `url`, what is no file, or a server that refuses us.
    """
    kind, _, place = url.partition(":///")
    path = Path(place.partition("?")[0])
    if kind != "sqlite" or place in ("", ":memory:") or path.is_dir():
        from tracegrade.store.open import check_reachable

        check_reachable(url, _WAITS_S)
    elif problem := unfit(version_in(path), is_file=True, read_only=False, update=True):
        from tracegrade.store.errors import StoreError

        raise StoreError(f"{path}: {problem}")


def version_in(path: Path) -> str | None:
    """The version of the tables in a file; None if it has none, or does not say it now: the judge looks again."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", timeout=_WAITS_S, uri=True)) as connection:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error:
        return None
    return None if found is None else str(found[0])
