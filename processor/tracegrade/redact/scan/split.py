"""Values split over neighbouring texts: each part at the end of a text, all of one, or at its begin."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.signs import Signs

_MOST_TEXTS = 48  # that one value is split over
_BEHIND = 4  # texts behind the one in which a sign ends: the value may begin within what only looks like it
_LONGEST = 2048  # what is looked at of a text, from its end or its begin
_MOST_TRIES = 1024  # of texts put together, in one call: more are lists of short numbers made to be slow


def split_values(
    texts: Sequence[str], detectors: Sequence[Detector], signs: Signs, before: int = 0
) -> Iterator[tuple[int, Part, int]]:
    """The parts of split values: the number of the text, where in it, and the number of the detector.

    Args:
        texts: in the order they stand, without what was found in each alone.
        detectors: those that do not join are left out.
        signs: of those that do.
        before: how many texts before its sign a value may begin.
    """
    starts = [0, *accumulate(map(len, texts))]
    whole = "".join(texts)
    data = whole.encode("utf-8", "replace")
    if not signs.any_in(data):
        return
    joining = [(number, one) for number, one in enumerate(detectors) if one.joins]
    tries = done = 0
    places = {place for number in signs.numbers_in(data) for place in _places(signs, number, data, len(whole))}
    for start, end in sorted(places):
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        for begin in range(max(first - before, done, 0), min(last, len(texts) - 2) + 1):
            for stop in range(begin + 1, min(begin + _MOST_TEXTS, last + _BEHIND, len(texts))):
                if tries >= _MOST_TRIES:
                    return
                tries += 1
                found = _from_first_to_last(texts[begin : stop + 1], joining, signs)
                # A text behind it belongs to it as a whole or not at all.
                if done > begin and (found is None or starts[begin] + found[0][1] < starts[stop + 1]):
                    break
                if found is not None:
                    best, done = found, stop
            if done > begin:
                (part_start, part_end), number = best
                yield from _pieces(starts[begin] + part_start, starts[begin] + part_end, starts, number)
                break


def _from_first_to_last(
    texts: Sequence[str], detectors: Sequence[tuple[int, Detector]], signs: Signs
) -> tuple[Part, int] | None:
    """A value that begins in the first and ends in the last of these texts, counted with what it is known by."""
    before = max(0, len(texts[0]) - _LONGEST)
    whole = texts[0][before:] + "".join(texts[1:-1]) + texts[-1][:_LONGEST]
    first, last = len(texts[0]) - before, len(whole) - len(texts[-1][:_LONGEST])
    data = whole.encode("utf-8", "replace")
    for place in sorted(signs.numbers_in(data)):
        number, detector = detectors[place]
        places = _places(signs, place, data, len(whole))
        for start, end in detector.find(whole, ""):
            known_by = [one for one in places if one[0] < end and one[1] >= start]
            if min([start, *(one[0] for one in known_by)]) < first and max([end, *(one[1] for one in known_by)]) > last:
                return (before + start, before + end), number
    return None


def _places(signs: Signs, number: int, data: bytes, length: int) -> list[Part]:
    """Where the signs of one are in a text of `length` characters, of which `data` are the bytes."""
    places = [match.span() for match in signs.matches(number, data)]
    if len(data) == length:
        return places
    # A sign may end within the bytes of a character.
    return [
        (len(data[:start].decode("utf-8", "ignore")), len(data[:end].decode("utf-8", "ignore")))
        for start, end in places
    ]


def _pieces(start: int, end: int, starts: Sequence[int], number: int) -> Iterator[tuple[int, Part, int]]:
    text = bisect_right(starts, start) - 1
    while start < end:
        stop = min(end, starts[text + 1])
        if start < stop:
            yield text, (start - starts[text], stop - starts[text]), number
        start, text = max(start, stop), text + 1
