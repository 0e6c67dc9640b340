"""What is where in the data folder. The two roles share these files and nothing else."""

import uuid
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any

import orjson

from tracegrade.journal.position import Position
from tracegrade.pipeline.set_aside import SetAside

_LONGEST_INSTANCE_ID = 128

JOURNAL = "journal"
JUDGE = "judge"
_IN_RESULTS = "results."  # begins the names of consumers of the results journal


class DataFolder:
    """Paths of one data folder, made when first needed, for its user alone."""

    def __init__(self, path: Path) -> None:
        """Create the folder if it is not there.

        Raises:
            OSError: it cannot be created.
        """
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.journal = path / JOURNAL
        self.results = path / "results"
        self.heartbeat = path / "judge.heartbeat"
        self.set_aside = SetAside(path)

    def position(self, consumer: str) -> Path:
        """The position file of one consumer of the journal."""
        return self.path / "positions" / consumer.replace("/", "~")

    def position_in_results(self, sink: str) -> Path:
        """The position file of one sink, a consumer of the results journal."""
        return self.position(f"{_IN_RESULTS}{sink}")

    def consumed(self) -> int:
        """The furthest that any consumer of the journal has got: the journal may not begin before it again.

        Whoever has a position file is one, also an exporter that the settings no longer name.
        """
        return max((Position(path).load() or 0 for path in self._positions(of_results=False)), default=0)

    def consumed_results(self) -> int:
        """The same of the results journal."""
        return max((Position(path).load() or 0 for path in self._positions(of_results=True)), default=0)

    def _positions(self, *, of_results: bool) -> list[Path]:
        found = (self.path / "positions").glob("*")
        return [path for path in found if path.name.startswith(_IN_RESULTS) == of_results]

    def instance_id(self) -> str:
        """The instance's own name, made once; what we send carries it, so that a loop is recognised."""
        path = self.path / "instance_id"
        found = path.read_bytes().decode("latin-1").strip() if path.exists() else ""
        # A power cut may leave the file empty or full of noise; neither is anybody's name, nor can be sent as one.
        if not found or not found.isascii() or not found.isprintable() or len(found) > _LONGEST_INSTANCE_ID:
            found = uuid.uuid4().hex
            _replace(path, found.encode())
        return found

    def write_snapshot(self, role: str, snapshot: dict[str, Any]) -> None:
        """Show a role's metrics to the other; with the disk full, the last one stays and its age is seen to grow."""
        try:
            _replace(self.path / f"{role}.snapshot.json", orjson.dumps(snapshot))
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise

    def read_snapshot(self, role: str) -> dict[str, Any] | None:
        """The last snapshot that the role wrote, None before its first."""
        try:
            snapshot: dict[str, Any] = orjson.loads((self.path / f"{role}.snapshot.json").read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None
        return snapshot

    def write_published(self, snapshots: list[dict[str, Any]]) -> None:
        """Show the page and ``doctor`` both roles' metrics and conditions of one moment, as ``/metrics`` does."""
        self.write_snapshot("published", {"roles": snapshots})

    def read_published(self) -> list[dict[str, Any]]:
        """What was published last; [] before that."""
        published = self.read_snapshot("published") or {"roles": []}
        roles: list[dict[str, Any]] = published["roles"]
        return roles


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(path)
