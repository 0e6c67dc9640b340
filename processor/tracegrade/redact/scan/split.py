"""Values split over neighbouring texts: each part at the end of a text, all of one, or at its begin."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.signs import Signs

_MOST_TEXTS = 48  # that one value is split over
_BEHIND = 4  # texts behind the one in which a sign ends: the value may begin within what only looks like it
_LONGEST = 2048  # what is looked at of a text, from its end or its begin
_GOES_ON = 96  # characters behind its sign, or before it: no value is longer of which the sign is not all
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
    joining = [one for one in enumerate(detectors) if one[1].joins]
    places = {
        (start, end, number)
        for start, end, number in _places(signs, whole, texts)
        if _is_at_edge((start, end), starts, before)
    }
    numbers = {number for _, _, number in places}
    tries = done = 0
    for start, end, _ in sorted(places):
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        for begin in range(max(first - before, done, 0), min(last, len(texts) - 2) + 1):
            for stop in range(begin + 1, min(begin + _MOST_TEXTS, last + _BEHIND, len(texts))):
                if tries >= _MOST_TRIES:
                    return
                tries += 1
                found = _from_first_to_last(texts[begin : stop + 1], joining, signs, numbers)
                # A text behind it belongs to it as a whole or not at all.
                if done > begin and (found is None or starts[begin] + found[0][1] < starts[stop + 1]):
                    break
                if found is not None:
                    best, done = found, stop
            if done > begin:
                (part_start, part_end), number = best
                yield from _pieces(starts[begin] + part_start, starts[begin] + part_end, starts, number)
                break


def _is_at_edge(place: Part, starts: Sequence[int], before: int) -> bool:
    """Whether what a sign found may belong to a value that goes on in the next text, or began in one before."""
    start, end = place
    text = bisect_right(starts, start)
    return (text < len(starts) and starts[text] < end + _GOES_ON) or (
        before > 0 and start - starts[text - 1] < _GOES_ON
    )


def _from_first_to_last(
    texts: Sequence[str], detectors: Sequence[tuple[int, Detector]], signs: Signs, numbers: Collection[int]
) -> tuple[Part, int] | None:
    """A value that begins in the first and ends in the last of these texts, counted with what it is known by."""
    before = max(0, len(texts[0]) - _LONGEST)
    whole = texts[0][before:] + "".join(texts[1:-1]) + texts[-1][:_LONGEST]
    first, last = len(texts[0]) - before, len(whole) - len(texts[-1][:_LONGEST])
    places = list(_places(signs, whole))
    for place in sorted(numbers):
        number, detector = detectors[place]
        of_number = [(start, end) for start, end, other in places if other == place]
        for start, end in detector.find(whole, "") if of_number else ():
            known_by = [one for one in of_number if one[0] < end and one[1] >= start]
            if min([start, *(one[0] for one in known_by)]) < first and max([end, *(one[1] for one in known_by)]) > last:
                return (before + start, before + end), number
    return None


def _places(signs: Signs, whole: str, texts: Sequence[str] = ()) -> Iterator[tuple[int, int, int]]:
    """Where signs are in `whole`, and their numbers; of `texts` that it is made of, those of numbers at their edges."""
    data = whole.encode("utf-8", "replace")
    if len(data) == len(whole):
        edges = list(accumulate(map(len, texts)))
        yield from ((start, end, number) for number, start, end in signs.matches(data, edges))
        return
    edges = list(accumulate(len(text.encode("utf-8", "replace")) for text in texts))
    for number, start, end in signs.matches(data, edges):
        # A sign may end within the bytes of a character.
        yield len(data[:start].decode("utf-8", "ignore")), len(data[:end].decode("utf-8", "ignore")), number


def _pieces(start: int, end: int, starts: Sequence[int], number: int) -> Iterator[tuple[int, Part, int]]:
    text = bisect_right(starts, start) - 1
    while start < end:
        stop = min(end, starts[text + 1])
        if start < stop:
            yield text, (start - starts[text], stop - starts[text]), number
        start, text = max(start, stop), text + 1
