"""The version of the store's tables, and which versions this TraceGrade refuses; loads no database library."""

# The newest migration in migrations/versions, and the first: stores with earlier tables were made before any release.
VERSION = "0024"
FIRST = "0022"
_LAST_TO_READ_EARLIER = "922315cc"


def unfit(found: str | None, *, is_file: bool, read_only: bool, update: bool) -> str | None:
    """Why tables of the version `found` (None: there are none) are refused, and what to do; None when they are not.

    `is_file`: the store is a file, which `doctor --repair` can replace. `read_only` and `update` are those of
    `store.open.open_store`.
    """
    if found is None:
        return "holds no TraceGrade results; 'tracegrade serve' makes a store" if read_only else None
    if found > VERSION:
        return (
            f"written by a newer TraceGrade (tables of version {found}, this one knows {VERSION}); use that version, "
            "or another store.url"
        )
    if found < FIRST:
        refused = f"written before the first release (tables of version {found}, this one needs {VERSION})"
        if is_file:
            return (
                f"{refused}; stop serve, and 'tracegrade doctor --repair' makes a new store of what it can read there, "
                "of the results journals and of the journal; it keeps the old file for store.damaged_retention. Commit "
                f"{_LAST_TO_READ_EARLIER} still reads it: make a 'backup' with it first"
            )
        return (
            f"{refused}; commit {_LAST_TO_READ_EARLIER} still reads it: with it, take out what no journal holds "
            "('suite export', 'experiments', 'traces export'). Then stop serve, give store.url an empty database, and "
            "'tracegrade doctor --repair' fills that from the results journals and the journal"
        )
    if found < VERSION and not update:
        return (
            f"written by an older TraceGrade (tables of version {found}, this one needs {VERSION}); start 'tracegrade "
            "serve' of this version over it once, which brings it up to date: no older one takes it afterwards"
        )
    return None
