"""The version of the store's tables, and which versions this TraceGrade refuses; loads no database library."""

# The newest migration in migrations/versions, and the first: stores with earlier tables were made before any release.
VERSION = "0022"
FIRST = "0022"
_LAST_TO_READ_EARLIER = "922315cc"


def unfit(found: str | None, *, read_only: bool, update: bool) -> str | None:
    """Why tables of the version `found` (None: there are none) are refused, and what to do; None when they are not.

    `read_only` and `update` are those of `store.open.open_store`.
    """
    if found is None:
        return "holds no TraceGrade results; 'tracegrade serve' makes a store" if read_only else None
    if found > VERSION:
        return (
            f"written by a newer TraceGrade (tables of version {found}, this one knows {VERSION}); use that version, "
            "or another store.url"
        )
    if found < FIRST:
        return (
            f"written before the first release (tables of version {found}, this one needs {VERSION}); stop serve, and "
            "'tracegrade doctor --repair' makes a new store of what it can read there, of the results journals and of "
            "the journal; it keeps the old file for store.damaged_retention. Commit "
            f"{_LAST_TO_READ_EARLIER} still reads it: make a 'backup' with it first; with PostgreSQL, take out what no "
            "journal holds ('suite export', 'experiments', 'traces export'), and give store.url an empty database"
        )
    if found < VERSION and not update:
        return (
            f"written by an older TraceGrade (tables of version {found}, this one needs {VERSION}); start 'tracegrade "
            "serve' of this version over it once, which brings it up to date: no older one takes it afterwards"
        )
    return None
