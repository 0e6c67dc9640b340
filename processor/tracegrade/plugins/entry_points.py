"""Members that installed packages add to ours, found by entry point, such as those of ``tracegrade.dialects``.

A package that cannot be used stops the start: leaving it out would judge by less than what was installed.
"""

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from tracegrade.model.errors import TraceGradeError

Member = TypeVar("Member")
DIALECTS = "tracegrade.dialects"
EVALUATORS = "tracegrade.evaluators"


@dataclass(frozen=True, slots=True)
class Plugin(Generic[Member]):
    """One member and where it comes from; ``version`` is its package's."""

    name: str
    member: Member
    package: str
    version: str
    where: str  # for errors: the entry point and its package

    def error(self, found: str) -> TraceGradeError:
        """The error that says what was `found` there instead of a member that can be used."""
        return _error(self.where, self.package, found)


def are_installed() -> bool:
    """Whether an installed package adds anything: asked before what is loaded for that takes long."""
    return any(map(points, (DIALECTS, EVALUATORS)))


def points(group: str) -> list[EntryPoint]:
    """The entry points of `group`, by name; nothing of their packages is imported."""
    return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))


def load(group: str, kind: type[Member]) -> list[Plugin[Member]]:
    """Additions of installed packages to `group`, by name.

    Raises:
        TraceGradeError: one cannot be imported, is not a `kind`, or two have one name.
    """
    found: dict[str, Plugin[Member]] = {}
    for point in points(group):
        plugin = _load(point, group, kind)
        if (other := found.get(plugin.name)) is not None:
            raise plugin.error(f"the name {plugin.name!r} is taken by {other.where}")
        found[plugin.name] = plugin
    return list(found.values())


def _load(point: EntryPoint, group: str, kind: type[Member]) -> Plugin[Member]:
    package, version = (point.dist.name, point.dist.version) if point.dist is not None else ("an unnamed package", "")
    where = f"entry point {point.name} = {point.value} ({group}) of {package} {version}".rstrip()
    try:
        member = point.load()
    except Exception as error:  # importing runs any code of theirs
        raise _error(where, package, f"cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(member, kind):
        raise _error(where, package, f"expected a {kind.__module__}.{kind.__name__}, found {type(member).__name__}")
    return Plugin(point.name, member, package, version, where)


def _error(where: str, package: str, found: str) -> TraceGradeError:
    return TraceGradeError(f"{where}: {found}; fix or uninstall {package}")
