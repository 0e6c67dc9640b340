"""The environment in which a program under test sends its spans to a listener."""

import os
from collections.abc import Mapping

_SIGNALS = ("TRACES", "LOGS", "METRICS")
_DELAY_MS = "200"
_TEST = "deployment.environment.name=test"


def exporting_to(endpoint: str, environment: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """What to change in `environment`; None stands for what is not to be in it.

    The protocol is left to the program: `endpoint` takes both. Batches are sent soon, every trace is sampled, and what
    would send spans elsewhere, or none, is taken away.
    """
    changes: dict[str, str | None] = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    changes |= {f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT": None for signal in _SIGNALS}
    changes |= dict.fromkeys(("OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"))
    for name in ("OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY"):
        changes[name] = _DELAY_MS
    if "otlp" not in environment.get("OTEL_TRACES_EXPORTER", "").split(","):
        changes["OTEL_TRACES_EXPORTER"] = "otlp"
    resource = environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if "deployment.environment" not in resource:
        changes["OTEL_RESOURCE_ATTRIBUTES"] = ",".join(filter(None, (resource, _TEST)))
    for name in ("no_proxy", "NO_PROXY"):
        hosts = environment.get(name, "")
        if "127.0.0.1" not in hosts.split(","):
            changes[name] = ",".join(filter(None, (hosts, "127.0.0.1")))
    return changes
