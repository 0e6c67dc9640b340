"""The labels of alerts, by which they are routed and silenced; without what only settings need."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # it loads no SQL
    from tracegrade.store.alerts import StoredAlert

LABELS = ("rule", "level", "service", "agent", "release", "tenant", "kind", "of")
"""The labels that the settings may name."""

Globs: TypeAlias = str | list[str]


def check_labels(names: Iterable[str]) -> None:
    """Refuse labels that no alert has: they would match nothing."""
    if unknown := sorted(set(names) - set(LABELS)):
        raise ValueError(f"no label {unknown[0]!r}; expected one of {', '.join(LABELS)}")


def matches(alert: "StoredAlert", labels: Mapping[str, Globs]) -> bool:
    """Whether each label of `alert` matches its glob."""
    own = alert.labels
    return all(_matches(own[label], globs) for label, globs in labels.items())


def _matches(value: str, globs: Globs) -> bool:
    return any(fnmatchcase(value, glob) for glob in ([globs] if isinstance(globs, str) else globs))
