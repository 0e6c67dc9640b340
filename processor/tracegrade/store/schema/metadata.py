"""What tables are collected in. Take these from `tracegrade.store.schema`, which has read all tables."""

from sqlalchemy import MetaData

metadata = MetaData()
postgresql_metadata = MetaData()
"""What only PostgreSQL has."""
