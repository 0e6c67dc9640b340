"""Replaces what detectors find in values by stand-ins, the same value always by the same."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

from tracegrade.model.json_value import JsonValue
from tracegrade.redact.json_text import Leaf, Path, is_json, rewritten
from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.json_inside import MAX_DEPTH

Finding: TypeAlias = tuple[str, str]
"""The name of a detector, and what all spellings of the value that it found have in common."""

NO_VALUES: Collection[Finding] = frozenset()


class Redactor:
    """Detectors, and the stand-ins that were given so far.

    Attributes:
        counts: how often each detector found something that was replaced.
        places: of each value that was found, replaced or kept, the paths at which it stood.
        in_numbers: the values that stood as a number somewhere.
    """

    def __init__(
        self,
        detectors: Sequence[Detector],
        *,
        keep: Collection[Finding] = NO_VALUES,
        is_taken: Callable[[str], bool] = lambda stand_in: False,
    ) -> None:
        """A redactor that has seen nothing.

        Args:
            detectors: in order of preference.
            keep: values that stay as they are, wherever they stand.
            is_taken: whether a text is in use as something else, so that it cannot be a stand-in.
        """
        self.counts: Counter[str] = Counter()
        self.places: dict[Finding, set[Path]] = {}
        self.in_numbers: set[Finding] = set()
        self._detectors = detectors
        self._keep = keep
        self._is_taken = is_taken
        self._numbers: dict[Finding, int] = {}
        self._last: Counter[str] = Counter()

    def value(self, value: JsonValue, place: Path = ()) -> JsonValue:
        """`value` with stand-ins; `place` is where it stands, such as the key of an attribute.

        Texts that are JSON are read as such, and what is in them has a path that goes on from theirs.
        """
        if isinstance(value, str):
            return self.text(value, place)
        if isinstance(value, dict):
            # Paths name what stands there now: the keys themselves may be what was found.
            named = ((self._plain(key, place, ""), member) for key, member in value.items())
            return {key: self.value(member, (*place, key)) for key, member in named}
        if isinstance(value, list):
            return [self.value(item, (*place, number)) for number, item in enumerate(value)]
        if type(value) is int:
            written = str(value)
            return value if (other := self._number(written, place)) == written else int(other)
        return value

    def text(self, text: str, place: Path = (), depth: int = 0) -> str:
        """Redact a text; see `value`."""
        if depth < MAX_DEPTH and is_json(text):

            def replace(found: str, leaf: Leaf, path: Path) -> str:
                at = (*place, *path)
                if leaf == "number":
                    return self._number(found, at)
                return self._plain(found, at, "") if leaf == "key" else self.text(found, at, depth + 1)

            return rewritten(text, replace)
        return self._plain(text, place, _name(place))

    def _number(self, written: str, place: Path) -> str:
        if not written.isdigit():
            return written
        detectors = [detector for detector in self._detectors if detector.in_numbers]
        return self._replaced(written, place, _name(place), detectors, in_number=True)

    def _plain(self, text: str, place: Path, key: str) -> str:
        return self._replaced(text, place, key, self._detectors)

    def _replaced(
        self, text: str, place: Path, key: str, detectors: Sequence[Detector], *, in_number: bool = False
    ) -> str:
        found = _apart(text, key, detectors)
        if not found:
            return text
        pieces, end = [], 0
        for (start, part_end), detector in found:
            value = text[start:part_end]
            finding = detector.name, detector.identity(value)
            self.places.setdefault(finding, set()).add(place)
            if in_number:
                self.in_numbers.add(finding)
            other = value if finding in self._keep else self._stand_in(detector, finding, value)
            pieces += [text[end:start], other]
            end = part_end
        return "".join(pieces) + text[end:]

    def _stand_in(self, detector: Detector, finding: Finding, value: str) -> str:
        self.counts[detector.name] += 1
        if finding not in self._numbers:
            number = self._last[detector.name] + 1
            while self._is_taken(detector.stand_in(value, number)):
                number += 1
            self._numbers[finding] = self._last[detector.name] = number
        return detector.stand_in(value, self._numbers[finding])


def _name(place: Path) -> str:
    """The key under which a value stands; items of a list stand under that of the list."""
    return next((part for part in reversed(place) if isinstance(part, str)), "")


def _apart(text: str, key: str, detectors: Sequence[Detector]) -> list[tuple[Part, Detector]]:
    """What is found, in order; of parts that overlap, the one of the first detector.

    Whoever found a part that overlaps looks again at what is left beside the others: a telephone number that seems to
    go on into the number of a card is one up to there.
    """
    chosen: list[tuple[Part, Detector]] = []
    for detector in detectors:
        found = list(detector.find(text, key))
        free = [part for part in found if not _overlaps(part, chosen)]
        if len(free) < len(found):
            left = _beside(text, chosen)
            free = [(start + at, start + end) for start, rest in left for at, end in detector.find(rest, key)]
        chosen = sorted([*chosen, *((part, detector) for part in free)], key=lambda item: item[0])
    return chosen


def _overlaps(part: Part, chosen: Sequence[tuple[Part, Detector]]) -> bool:
    return any(part[0] < end and start < part[1] for (start, end), _ in chosen)


def _beside(text: str, chosen: Sequence[tuple[Part, Detector]]) -> Iterator[tuple[int, str]]:
    """The texts between the chosen parts, with where each begins."""
    begin = 0
    for (start, end), _ in chosen:
        yield begin, text[begin:start]
        begin = end
    yield begin, text[begin:]
