"""Run by alembic, with the open connection that `tracegrade.store.open` passes in."""

from alembic import context

from tracegrade.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
