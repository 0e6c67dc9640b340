"""Settings for reading rule files, as plain data that is passed to other processes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracegrade.rule.rule_set import RuleSet


@dataclass(frozen=True, slots=True)
class RuleReading:
    """Resources that rules may use besides their own files; see `load.load_rules`."""

    semantic_model: str | None = None
    allow_code: bool = False

    def load(self, paths: Iterable[str | Path]) -> "RuleSet":
        """The rules at `paths`; raises as `load.load_rules`."""
        from tracegrade.rule.load import load_rules  # takes long, and commands that only show need it not

        return load_rules(paths, semantic_model=self.semantic_model, allow_code=self.allow_code)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Have rules and criteria that are read within, and not from files, use the same.

        Raises:
            WrongValue: as `load`.
        """
        from tracegrade.evaluate.criteria.semantic import comparing_by  # as above
        from tracegrade.rule.semantic_model import model_in

        with comparing_by(model_in(self.semantic_model)):
            yield

    def beside(self, other: "RuleReading | None") -> "RuleReading":
        """With what `other` says where this says nothing."""
        if other is None:
            return self
        return RuleReading(self.semantic_model or other.semantic_model, self.allow_code or other.allow_code)


FILES_ALONE = RuleReading()
"""Rules may use nothing beside their own files."""
