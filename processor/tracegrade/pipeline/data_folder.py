"""The files of the data folder. The two roles share these files and nothing else."""

import uuid
from collections.abc import Collection
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any

import orjson

from tracegrade.journal.position import Position
from tracegrade.pipeline.set_aside import SetAside
from tracegrade.telemetry.metrics import without_traces

_LONGEST_INSTANCE_ID = 128

JOURNAL = "journal"
JUDGE = "judge"
RESULTS = "results"
_IN_RESULTS = "results."  # the prefix of the names of consumers of the results journal


class DataFolder:
    """Paths of one data folder, made when first needed, readable only by its user."""

    def __init__(self, path: Path) -> None:
        """Create the folder if it is not there.

        Raises:
            OSError: it cannot be created.
        """
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.journal = path / JOURNAL
        self.results = path / RESULTS
        self.heartbeat = path / "judge.heartbeat"
        self.set_aside = SetAside(path)
        self.jobs_wait = path / "jobs.wait"
        self.jobs_beat = path / "jobs.beat"

    def position(self, consumer: str) -> Path:
        """The position file of one consumer of the journal."""
        return self.path / "positions" / consumer.replace("/", "~")

    def position_in_results(self, sink: str) -> Path:
        """The position file of one sink, a consumer of the results journal."""
        return self.position(f"{_IN_RESULTS}{sink}")

    def consumed(self) -> int:
        """The highest position of any consumer of the journal: the journal must not write before it again.

        Every position file counts, also that of an exporter that is no longer in the settings.
        """
        return max((Position(path).load() or 0 for path in self._positions(of_results=False)), default=0)

    def consumed_results(self) -> int:
        """The same of the results journal."""
        return max((Position(path).load() or 0 for path in self._positions(of_results=True)), default=0)

    def _positions(self, *, of_results: bool) -> list[Path]:
        found = (self.path / "positions").glob("*")
        return [path for path in found if path.name.startswith(_IN_RESULTS) == of_results]

    def instance_id(self) -> str:
        """The instance's own id, made once; everything we send carries it, so that a loop is recognised."""
        path = self.path / "instance_id"
        found = path.read_bytes().decode("latin-1").strip() if path.exists() else ""
        # A power cut may leave the file empty or full of random bytes, which cannot be used as an id.
        if not found or not found.isascii() or not found.isprintable() or len(found) > _LONGEST_INSTANCE_ID:
            found = uuid.uuid4().hex
            _replace(path, found.encode())
        return found

    def note_jobs_wait(self) -> None:
        """Say that there is work for a worker of jobs: ``serve`` starts one where it finds this file."""
        self.jobs_wait.touch(mode=0o600)

    def write_snapshot(self, role: str, snapshot: dict[str, Any]) -> None:
        """Write a role's metrics for the other role; when the disk is full, the last one stays and its age grows."""
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

    def forget_traces(self, trace_ids: Collection[bytes]) -> None:
        """Name these traces no longer in the snapshots that roles left when they ended."""
        hex_ids = {trace_id.hex() for trace_id in trace_ids}
        if (of_judge := self.read_snapshot(JUDGE)) is not None:
            self.write_snapshot(JUDGE, without_traces(of_judge, hex_ids))
        if published := self.read_published():
            self.write_published([without_traces(of_role, hex_ids) for of_role in published])

    def write_published(self, snapshots: list[dict[str, Any]]) -> None:
        """Write both roles' metrics and conditions of one moment for the page and ``doctor``, as in ``/metrics``."""
        self.write_snapshot("published", {"roles": snapshots})

    def read_published(self) -> list[dict[str, Any]]:
        """The snapshots published last; [] before the first."""
        published = self.read_snapshot("published") or {"roles": []}
        roles: list[dict[str, Any]] = published["roles"]
        return roles


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(path)
