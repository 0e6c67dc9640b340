"""What finds detectors' values in texts."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tracegrade.redact.detector import Detector
from tracegrade.redact.scan.own import NAME, names_detector, pattern_detector


class Found(NamedTuple):
    """A part of a text: ``texts[text][start:end]``, and the name of the detector that found it."""

    text: int
    start: int
    end: int
    detector: str


class Scanner:
    """Detectors, names of a dictionary and own patterns, all looked for together."""

    def __init__(self, detectors: Sequence[Detector], names: Collection[str], patterns: Mapping[str, str]) -> None:
        """Compile what is looked for.

        Args:
            detectors: in order of preference: where two find the same text, the first decides what it is.
            names: words of which whole ones are found, in upper and lower case; the detector is ``name``.
            patterns: regular expressions (RE2) by the name of their detector.

        Raises:
            ValueError: a pattern that RE2 refuses, or that finds the empty text or everything; a name of less than two
                characters; a pattern called as a detector is. The message names it.
        """
        taken = {detector.name for detector in detectors} | {NAME}
        if doubled := sorted(taken & set(patterns)):
            raise ValueError(f"pattern {doubled[0]!r} is called as a detector is; give it another name")
        own = [names_detector(names)] if names else []
        own += [pattern_detector(name, pattern) for name, pattern in patterns.items()]
        self._detectors = (*detectors, *own)

    def may_hold(self, wire: bytes) -> bool:
        """Whether anything may be found in a request, in protobuf or JSON: False only where `find` finds nothing."""
        return bool(wire and self._detectors)

    def find(self, texts: Sequence[str], keys: Sequence[str]) -> list[Found]:
        """What is found in neighbouring texts, in the order they stand.

        Args:
            texts: such as all values of a span; what is split over several that follow each other is found, too.
            keys: the name under which each stands, "" where it has none.

        Returns:
            The parts to replace, by text and start; none within another. Of what was written in another form, the whole
            piece: all of a base64 text that holds an address.
        """
        found = []
        for number, (text, key) in enumerate(zip(texts, keys, strict=True)):
            parts = [
                (start, end, detector.name) for detector in self._detectors for start, end in detector.find(text, key)
            ]
            last = 0
            for start, end, name in sorted(parts, key=lambda part: part[:2]):
                if start >= last:
                    found.append(Found(number, start, end, name))
                    last = end
        return found
