from sqlalchemy import Table

from build import each
from tracegrade.store.schema import metadata


@each("table", metadata.tables.values(), ids=str)
def test_a_table_has_a_tenant_or_says_why_not(table: Table) -> None:
    assert ("tenant" in table.columns) is not ("without_tenant" in table.info)
