"""The tables that the first release makes, in `store.schema.create`: migrations after this one change those of a store.

A new store is not made by migrations. So this one never runs, and has nothing to do.
"""

revision = "0022"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: stores with earlier tables are refused."""
