"""``--tenant``: whose data a command reads or writes."""

from collections.abc import Callable
from typing import TypeVar

import click

from tracegrade.model.tenant import DEFAULT_TENANT, checked_tenant

R = TypeVar("R")


class _Tenant(click.ParamType[str]):
    """A name that a tenant can have: of any other there is nothing, and it was mistyped."""

    name = "tenant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return checked_tenant(str(value))
        except ValueError as error:
            self.fail(str(error))


TENANT = _Tenant()

tenant_option = click.option("--tenant", type=TENANT, help="Only of this tenant; without it, of all.")
"""``--tenant``, for a parameter ``tenant``: None unless given."""


def own_tenant_option(whose: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """``--tenant`` of what belongs to one tenant always; `whose` is its help."""
    return click.option("--tenant", type=TENANT, default=DEFAULT_TENANT, show_default=True, help=whose)
