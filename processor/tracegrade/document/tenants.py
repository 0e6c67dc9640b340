"""Tenants in settings: one by name, and what is for some of them alone."""

from typing import Annotated

from pydantic import AfterValidator, Field

from tracegrade.document.file_model import FileModel
from tracegrade.model.tenant import checked_tenant

Tenant = Annotated[str, AfterValidator(checked_tenant)]


class ForTenants(FileModel):
    """Base of the settings of a place to which we send what belongs to all tenants, or to some."""

    tenants: list[Tenant] | None = Field(
        None, min_length=1, description="Send it only what belongs to these tenants; null: what belongs to any"
    )

    def is_for(self, tenant: str) -> bool:
        """Whether what belongs to `tenant` is sent to this place."""
        return self.tenants is None or tenant in self.tenants
