"""A parsed YAML file: its value, and the line and column of every part."""

from collections.abc import Mapping
from typing import NamedTuple

from tracegrade.document.problem import FileError, Location, Problem, dotted
from tracegrade.model.json_value import JsonValue


class Place(NamedTuple):
    """The line and column of one part of a file, and the places of the members of that part, if it has any.

    The places of a file form one tree, made while it is read. The place of a member is that of its key.
    """

    line: int
    column: int
    members: dict[str | int, "Place"] | None = None

    def member(self, key: str | int) -> "Place | None":
        """The place of one member; None where the file does not hold it."""
        return None if self.members is None else self.members.get(key)


_START = Place(1, 1)


class Part(NamedTuple):
    """One part of a document: the keys that lead to it, its value, its line and column."""

    location: Location
    value: JsonValue
    line: int
    column: int


class Document:
    """One parsed YAML file: its value, and the place of every part of it."""

    def __init__(
        self,
        path: str,
        value: JsonValue,
        place: Place = _START,
        unset: Mapping[Location, Problem] | None = None,
        text: str = "",
    ) -> None:
        self.path = path
        self._text = text
        self.value = value
        self.place = place
        self.unset = dict(unset or {})
        """The values that name an environment variable that is not set: null in `value`."""

    def holds(self, location: Location) -> bool:
        """Whether the file itself says something at `location`."""
        return self._deepest(location)[1]

    def position(self, location: Location) -> tuple[int, int]:
        """Line and column (from 1) of the deepest part of `location` that the file holds."""
        place, _ = self._deepest(location)
        return place.line, place.column

    def _deepest(self, location: Location) -> tuple[Place, bool]:
        """The place of the deepest part of `location` that the file holds, and whether that is all of it."""
        place = self.place
        for key in location:
            if (member := place.member(key)) is None:
                return place, False
            place = member
        return place, True

    def at(self, location: Location) -> JsonValue:
        """The value at `location`; None where there is none."""
        value = self.value
        for part in location:
            try:
                value = value[part]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def part(self, location: Location) -> Part:
        """The part that `location` leads to, passing over its keys that the document does not have."""
        value, place = self.value, self.place
        known: list[str | int] = []
        for key in location:
            is_member = isinstance(value, dict) and key in value
            if is_member or (isinstance(value, list) and isinstance(key, int) and key < len(value)):
                value = value[key]  # type: ignore[index]
                place = place.member(key) or Place(place.line, place.column)
                known.append(key)
        return Part(tuple(known), value, place.line, place.column)

    def part_at(self, part: Part, written: str) -> Part:
        """`part` with the line and column of the first `written` in its text; of its key, where that is escaped."""
        lines = self._text.splitlines(keepends=True)
        start = sum(map(len, lines[: part.line - 1])) + part.column - 1
        found = self._text.find(written, start)
        if found < 0:
            return part
        before = self._text[:found]
        return part._replace(line=before.count("\n") + 1, column=found - before.rfind("\n"))

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
        place, _ = self._deepest(mapping)
        if place.members is not None and old in place.members:
            place.members[new] = place.members.pop(old)
        depth = len(mapping)

        def renamed(at: Location) -> Location:
            return (*mapping, new, *at[depth + 1 :]) if at[: depth + 1] == (*mapping, old) else at

        self.unset = {renamed(at): problem for at, problem in self.unset.items()}
        return warning

    def problem(self, location: Location, message: str, *also: Location) -> Problem:
        """A `Problem` at `location`, its message led by the dotted path of the key.

        Where the file does not hold that key, the line is that of the first of `also` that it holds: the other keys
        that the message is about.
        """
        held = next((at for at in (location, *also) if self.holds(at)), location)
        return self.problem_at(Part(location, None, *self.position(held)), message)

    def problem_at(self, part: Part, message: str) -> Problem:
        """A `Problem` at `part`, its message led by the dotted path of the key."""
        path = dotted(part.location)
        return Problem(self.path, part.line, part.column, f"{path}: {message}" if path else message)
