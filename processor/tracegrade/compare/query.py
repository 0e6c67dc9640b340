"""The parameters of comparisons and gates."""

from dataclasses import dataclass
from typing import Annotated

from tracegrade.queries.parameters import SeriesQuery, Tenant, Time


@dataclass(frozen=True, slots=True, kw_only=True)
class SidesQuery(SeriesQuery):
    """The results of both sides of a comparison, or of the side that a gate decides on."""

    tenant: Annotated[Tenant | None, "Only of this tenant"] = None
    since: Annotated[Time | None, "Only of traces first received at this time or later"] = None
    until: Annotated[Time | None, "Only of traces first received before this time"] = None
