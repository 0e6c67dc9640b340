"""The tables that only PostgreSQL has, for several judges on one database."""

from sqlalchemy import BigInteger, Column, DateTime, Integer, LargeBinary, Table, Text

from tracegrade.store.schema.metadata import postgresql_metadata

# PostgreSQL: `traces` is in parts by number (`store.partitions`), whose indexes know only their own part. This says
# where each trace is, and holds that it is there once.
trace_keys = Table(
    "trace_keys",
    postgresql_metadata,
    Column("trace_id", LargeBinary(16), primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("run", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("replaced", BigInteger, doc="the number that it had before its latest revision"),
)

# PostgreSQL: how far each judge that writes to it has got (`store.several_processes`).
judges = Table(
    "judges",
    postgresql_metadata,
    Column("name", Text, primary_key=True),
    Column("stored_to_ns", BigInteger, nullable=False),
    Column("seen", DateTime(timezone=True), nullable=False),
)

# PostgreSQL: traces that are stored, and whose sessions are not judged with them yet (`store.several_processes`).
session_turns = Table(
    "session_turns",
    postgresql_metadata,
    Column("tenant", Text, primary_key=True),
    Column("session", Text, primary_key=True),
    Column("trace_id", LargeBinary(16), primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("closed_ns", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False, doc="of the session, among the shares of judges"),
)

# PostgreSQL: deletions that all data folders with judges carry out (`store.several_processes`).
shared_deletions = Table(
    "shared_deletions",
    postgresql_metadata,
    Column("id", Text, primary_key=True),
    Column("requested_ns", BigInteger, nullable=False),
    Column("tenant", Text, doc="NULL: the traces of all tenants"),
    Column("trace_ids", LargeBinary, nullable=False, doc="one after the other, 16 bytes each"),
)
