"""The output of the highest revision of each trace and session, held until ``replay`` has judged the last trace."""

import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from tracegrade.model.errors import CannotTell

if TYPE_CHECKING:
    from tracegrade.model.trace import TraceKey

_IN_MEMORY = 256 * 2**20  # bytes of output; the rest is in a temporary file


class LatestResults:
    """The output of the highest revision of each trace and session, in the order in which they were first judged.

    Ten kilobytes for a trace with ten results; everything is printed when the last trace is judged.
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # closed with this
        self._places: dict[TraceKey, tuple[int, int]] = {}
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, key: "TraceKey", packed: bytes) -> None:
        """Hold `packed` in place of what `key` had before."""
        try:
            self._file.write(packed)
        except OSError as error:
            raise CannotTell(
                f"{tempfile.tempdir or 'temporary files'}: {error.strerror}: what is found is held there until the "
                "last trace is judged; let TMPDIR name a folder with more room, or choose fewer traces by --since or "
                "--service"
            ) from None
        self._places[key] = (self._end, len(packed))
        self._end += len(packed)

    def __iter__(self) -> Iterator[bytes]:
        for begin, length in self._places.values():
            self._file.seek(begin)
            yield self._file.read(length)
