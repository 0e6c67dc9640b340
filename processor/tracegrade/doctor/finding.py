"""One thing that a check found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tracegrade.model.json_value import JsonValue

# ok: looked at, nothing wrong. note: worth knowing. warning: some results are missing or incomplete. error: something
# does not work.
Level: TypeAlias = Literal["ok", "note", "warning", "error"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note", "ok")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found at one place (a service, a scope, a rule, a path; "" for all), and what to do about it.

    ``evidence`` is for machines: counts, ids of examples, suggested settings.
    """

    check: str
    level: Level
    where: str
    found: str
    advice: str = ""
    evidence: Mapping[str, JsonValue] = field(default_factory=dict)

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        return {
            "check": self.check,
            "level": self.level,
            "where": self.where,
            "found": self.found,
            "advice": self.advice,
            "evidence": dict(self.evidence),
        }


def share(part: int, whole: int) -> str:
    """``3 of 40 (7.5%)``."""
    return f"{part} of {whole} ({part / whole:.3g}%)" if not whole else f"{part} of {whole} ({100 * part / whole:.3g}%)"
