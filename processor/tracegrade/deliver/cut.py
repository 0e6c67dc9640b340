"""Where the rows of a set of files begin and end in the results journal: durable before the first file is written.

Files are named by the position at which their cut begins. A kill may come when some files of a cut are written and the
position is not committed: the next start finds the cut here and makes the same one again, so that each file is
overwritten by one with the same rows.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from tracegrade.journal.files import replace_file


@dataclass(frozen=True, slots=True)
class Cut:
    """The records from ``begin`` to ``end``; the files of all before ``begin`` are complete."""

    begin: int
    end: int


class LastCut:
    """The last cut of one results journal, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Cut | None:
        """The last one saved; None when there is none, or none that can be read."""
        try:
            return Cut(**orjson.loads(self._path.read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def save(self, cut: Cut) -> None:
        """Make `cut` durable.

        Raises:
            OSError: the disk refused.
        """
        replace_file(self._path, orjson.dumps(asdict(cut)))
