"""A parsed YAML file: its value, and the line and column of every part."""

from collections.abc import Mapping

from tracegrade.document.problem import FileError, Location, Problem, dotted
from tracegrade.model.json_value import JsonValue


class Document:
    """One parsed YAML file: its value, and where each part of it stands."""

    def __init__(
        self,
        path: str,
        value: JsonValue,
        marks: Mapping[Location, tuple[int, int]],
        unset: Mapping[Location, Problem] | None = None,
    ) -> None:
        self.path = path
        self.value = value
        self.unset = dict(unset or {})
        """The values that name an environment variable that is not set: null in `value`."""
        self._marks = marks

    def holds(self, location: Location) -> bool:
        """Whether the file itself says something at `location`."""
        return location in self._marks

    def position(self, location: Location) -> tuple[int, int]:
        """Line and column (from 1) of the deepest part of `location` that the file holds."""
        known = tuple(part for part in location)
        while known and known not in self._marks:
            known = known[:-1]
        return self._marks.get(known, (1, 1))

    def at(self, location: Location) -> JsonValue:
        """The value at `location`; None where there is none."""
        value = self.value
        for part in location:
            try:
                value = value[part]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def rename_key(self, mapping: Location, old: str, new: str) -> Problem | None:
        """Read the key `old` of the mapping at `mapping` as `new`, which is what it is called now.

        Returns:
            A warning that names both; None when the file does not hold `old` there.

        Raises:
            FileError: the file holds both keys.
        """
        holder = self.at(mapping)
        if not isinstance(holder, dict) or old not in holder:
            return None
        if new in holder:
            raise FileError(
                [self.problem((*mapping, old), f"is the old name of {new!r}, and both are there; keep one")]
            )
        warning = self.problem((*mapping, old), f"is now called {new!r}; the old name still works, please rename it")
        holder[new] = holder.pop(old)
        depth = len(mapping)

        def renamed(place: Location) -> Location:
            return (*mapping, new, *place[depth + 1 :]) if place[: depth + 1] == (*mapping, old) else place

        self._marks = {renamed(place): mark for place, mark in self._marks.items()}
        self.unset = {renamed(place): problem for place, problem in self.unset.items()}
        return warning

    def problem(self, location: Location, message: str, *also: Location) -> Problem:
        """A `Problem` at `location`, its message led by the dotted path of the key.

        Where the file does not hold that key, the line is that of the first of `also` that it holds: the other keys
        that the message is about.
        """
        held = next((place for place in (location, *also) if self.holds(place)), location)
        line, column = self.position(held)
        path = dotted(location)
        return Problem(self.path, line, column, f"{path}: {message}" if path else message)
