"""Settings of quotas: how much a tenant, and a service of it, may send, keep and run."""

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from tracegrade.display import count
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.tenants import Tenant
from tracegrade.model.errors import TraceGradeError

# Rules bring all evaluators with them, and these settings are read where nothing is judged.
if TYPE_CHECKING:
    from tracegrade.rule.rule_set import RuleSet

_SPANS = "Most spans and log records a second; beyond it senders are asked to come back"
_MIB = "Most MiB of requests a second, after decompression; beyond it senders are asked to come back"


class RateQuota(FileModel):
    """How much may come in a second; null: as much as comes."""

    spans_per_second: float | None = Field(None, gt=0, description=_SPANS)
    mib_per_second: float | None = Field(None, gt=0, description=_MIB)

    @property
    def bytes_per_second(self) -> float | None:
        """``mib_per_second`` in bytes."""
        return None if self.mib_per_second is None else self.mib_per_second * 1024**2


class TenantQuota(RateQuota):
    """How much a tenant may send, keep and run."""

    services: dict[str, RateQuota] = Field(
        default_factory=dict, description="Of services by name, within that of the tenant"
    )
    stored_for: Duration | None = Field(
        None, gt=0, description="How long its traces stay in the store, at most `store.retention`; not in `each`"
    )
    jobs: int | None = Field(None, gt=0, description="Most jobs that wait or run at a time")
    rules: int | None = Field(None, gt=0, description="Most rules of its own: those that name it in `match.tenant`")


class QuotasSettings(FileModel):
    """Quotas by tenant; without any, nothing is refused because of them."""

    each: TenantQuota = Field(TenantQuota(), description="Of every tenant that `tenants` does not name")
    tenants: dict[Tenant, TenantQuota] = Field(default_factory=dict, description="Of tenants by name")

    def of(self, tenant: str) -> TenantQuota:
        """The quota of this tenant."""
        return self.tenants.get(tenant, self.each)

    @property
    def stored_for(self) -> dict[str, float]:
        """How long the traces of those tenants stay in the store whose quota says it, in s."""
        return {name: quota.stored_for for name, quota in self.tenants.items() if quota.stored_for is not None}

    @property
    def bounds_sending(self) -> bool:
        """Whether any quota bounds what comes in."""
        rates: list[RateQuota] = [self.each, *self.tenants.values()]
        rates += [service for quota in (self.each, *self.tenants.values()) for service in quota.services.values()]
        return any(rate.spans_per_second is not None or rate.mib_per_second is not None for rate in rates)

    def check_rules(self, rule_set: "RuleSet") -> None:
        """Refuse rules of which a tenant has more of its own than its quota allows.

        Raises:
            TraceGradeError: it says which tenant's.
        """
        own: dict[str, list[str]] = {}
        for rule in rule_set.rules:
            for tenant in rule.tenants:
                own.setdefault(tenant, []).append(rule.id)
        for tenant, found in sorted(own.items()):
            most = self.of(tenant).rules
            if most is not None and len(found) > most:
                where = f"tenants.{tenant}" if tenant in self.tenants else "each"
                first = rule_set.paths.get(found[most], found[most])
                raise TraceGradeError(
                    f"{first}: tenant {tenant!r} has {count(len(found), 'rule')} of its own, and quotas.{where}.rules "
                    f"allows {most}; remove {found[most]!r}, or allow more"
                )

    @model_validator(mode="after")
    def _fit_in_their_tenants(self) -> "QuotasSettings":
        if self.each.stored_for is not None:
            raise ValueError("each: stored_for: what holds for every tenant is store.retention; set that instead")
        for tenant, quota in (("each", self.each), *self.tenants.items()):
            for service, rate in quota.services.items():
                for name in ("spans_per_second", "mib_per_second"):
                    own, whole = getattr(rate, name), getattr(quota, name)
                    if own is not None and whole is not None and own > whole:
                        raise ValueError(
                            f"{tenant}: service {service!r}: expected {name} of at most {whole:g}, that of its tenant, "
                            f"found {own:g}"
                        )
        return self
