"""The files of the data folder. The two roles share these files and nothing else."""

import os
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any

import orjson

from tracegrade.assemble.share import ALL, Share
from tracegrade.journal.position import Position
from tracegrade.journal.recovery import SET_ASIDE_NAME
from tracegrade.journal.retention import WhenFull
from tracegrade.model.errors import TraceGradeError
from tracegrade.pipeline.set_aside import JUDGE as JUDGE
from tracegrade.pipeline.set_aside import SetAside
from tracegrade.telemetry.metrics import without_traces

_LONGEST_INSTANCE_ID = 128

JOURNAL = "journal"
RESULTS = "results"
DELIVERY = "delivery"
# There while a backup is brought back: it holds the path of the SQLite store that is copied, too, "" without one.
RESTORING = "restore.unfinished"
_HEARTBEAT = ".heartbeat"
_SNAPSHOT = ".snapshot.json"
_PUBLISHED = "published"
# What begins the names of consumers of a results journal, of any set of judges, or of the journal of turns.
_OF_RESULTS = re.compile(r"(results|results-\d+-of-\d+|turns)\.")
_JUDGE_OF_SEVERAL = re.compile(rf"{JUDGE}-(?P<number>\d+)-of-(?P<of>\d+)")


@dataclass(frozen=True, slots=True)
class Judge:
    """One of the processes that judge, by its share of the traces, and the names of what is its own."""

    share: Share

    @property
    def name(self) -> str:
        """Of its position, heartbeat and snapshot: ``judge``, or ``judge-0-of-2`` for the first of two."""
        return f"{JUDGE}{self._suffix}"

    @property
    def results(self) -> str:
        """Of its results journal: ``results``, or ``results-0-of-2``."""
        return f"{RESULTS}{self._suffix}"

    @property
    def _suffix(self) -> str:
        return "" if self.share.is_all else f"-{self.share.number}-of-{self.share.of}"


def judge_of(name: str) -> Judge | None:
    """The judge of this name; None for a name that none has."""
    if name == JUDGE:
        return Judge(ALL)
    match = _JUDGE_OF_SEVERAL.fullmatch(name)
    number, of = (int(match["number"]), int(match["of"])) if match else (0, 0)
    return Judge(Share(number, of)) if number < of else None


def judges(of: int) -> list[Judge]:
    """All judges of a set of so many."""
    return [Judge(Share(number, of)) for number in range(of)]


def check_is_whole(folder: Path) -> None:
    """Refuse a data folder into which a backup was brought back in part.

    Raises:
        TraceGradeError: it is one.
    """
    if (folder / RESTORING).exists():
        raise TraceGradeError(f"{folder}: 'tracegrade restore' was killed before all was there; run it again")


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
        self.turns = path / "turns"
        self.set_aside = SetAside(path)
        self.jobs_wait = path / "jobs.wait"
        self.jobs_beat = path / "jobs.beat"

    def position(self, consumer: str) -> Path:
        """The position file of one consumer of the journal."""
        return self.path / "positions" / consumer.replace("/", "~")

    def results(self, judge: Judge) -> Path:
        """The results journal of a judge."""
        return self.path / judge.results

    def heartbeat(self, role: str) -> Path:
        """The heartbeat of a judge, or of delivery where that is a process of its own."""
        return self.path / f"{role}{_HEARTBEAT}"

    def signs(self) -> list[tuple[str, Path]]:
        """All heartbeats and snapshots that are there, with the roles that wrote them."""
        return [
            (path.name.removesuffix(suffix), path)
            for suffix in (_HEARTBEAT, _SNAPSHOT)
            for path in sorted(self.path.glob(f"*{suffix}"))
        ]

    def position_in(self, results: str, sink: str) -> Path:
        """The position file of one sink, a consumer of the results journal of this name."""
        return self.position(f"{results}.{sink}")

    def turns_position(self, judge: Judge) -> Path:
        """How far a judge has read the journal of turns."""
        return self.position(f"turns.{judge.name}")

    def consumed(self) -> int:
        """The highest position of any consumer of the journal: the journal must not write before it again.

        Every position file counts, also that of an exporter that is no longer in the settings.
        """
        return _highest(self.positions_of_journal())

    def positions_of_journal(self) -> list[Path]:
        """The position files of all consumers of the journal."""
        return [path for path in (self.path / "positions").glob("*") if not _OF_RESULTS.match(path.name)]

    def consumed_of(self, journal: str) -> int:
        """The same of another journal: of results, or of turns."""
        return _highest((self.path / "positions").glob(f"{journal}.*"))

    def results_journals(self) -> list[str]:
        """The names of all results journals that are there, also those of other sets of judges."""
        return sorted(path.name for path in self.path.glob(f"{RESULTS}*") if _OF_RESULTS.fullmatch(f"{path.name}."))

    def delete_damaged_bytes(self, before_ns: int) -> int:
        """Delete the copies of damaged bytes that journals set aside before a time, ns since 1970 UTC.

        Returns:
            How many files there were.

        Raises:
            OSError: the disk refused.
        """
        old = [path for path in self.path.glob(f"*/{SET_ASIDE_NAME}/*") if path.stat().st_mtime_ns < before_ns]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)

    def instance_id(self) -> str:
        """The instance's own id, made once; everything we send carries it, so that a loop is recognised."""
        path = self.path / "instance_id"
        if (found := _id_in(path)) is None:
            _make_id(path)
            found = _id_in(path)
            assert found is not None
        return found

    def note_jobs_wait(self) -> None:
        """Say that there is work for a worker of jobs: ``serve`` starts one where it finds this file."""
        self.jobs_wait.touch(mode=0o600)

    def write_snapshot(self, role: str, snapshot: dict[str, Any]) -> None:
        """Write a role's metrics for the other role; when the disk is full, the last one stays and its age grows."""
        try:
            _replace(self.path / f"{role}{_SNAPSHOT}", orjson.dumps(snapshot))
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise

    def read_snapshot(self, role: str) -> dict[str, Any] | None:
        """The last snapshot that the role wrote, None before its first."""
        try:
            snapshot: dict[str, Any] = orjson.loads((self.path / f"{role}{_SNAPSHOT}").read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None
        return snapshot

    def write_sinks(self, sinks: Mapping[str, WhenFull]) -> None:
        """Write which sinks there are, for the writers of results journals that deliver nothing themselves."""
        _replace(self.path / "sinks.json", orjson.dumps(sinks))

    def read_sinks(self) -> dict[str, WhenFull]:
        """The sinks that delivery has, by name; none before it has begun."""
        try:
            sinks: dict[str, WhenFull] = orjson.loads((self.path / "sinks.json").read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return {}
        return sinks

    def forget_traces(self, trace_ids: Collection[bytes]) -> None:
        """Name these traces no longer in the snapshots that roles left when they ended."""
        hex_ids = {trace_id.hex() for trace_id in trace_ids}
        for path in self.path.glob(f"*{_SNAPSHOT}"):
            role = path.name.removesuffix(_SNAPSHOT)
            if role != _PUBLISHED and (of_role := self.read_snapshot(role)) is not None:
                self.write_snapshot(role, without_traces(of_role, hex_ids))
        if published := self.read_published():
            self.write_published([without_traces(of_role, hex_ids) for of_role in published])

    def write_published(self, snapshots: list[dict[str, Any]]) -> None:
        """Write both roles' metrics and conditions of one moment for the page and ``doctor``, as in ``/metrics``."""
        self.write_snapshot(_PUBLISHED, {"roles": snapshots})

    def read_published(self) -> list[dict[str, Any]]:
        """The snapshots published last; [] before the first."""
        published = self.read_snapshot(_PUBLISHED) or {"roles": []}
        roles: list[dict[str, Any]] = published["roles"]
        return roles


def _highest(positions: Iterable[Path]) -> int:
    return max((Position(path).load() or 0 for path in positions), default=0)


def _id_in(path: Path) -> str | None:
    """The id in a file; None without one: a power cut may leave it empty, or full of random bytes."""
    found = path.read_bytes().decode("latin-1").strip() if path.exists() else ""
    is_one = found.isascii() and found.isprintable() and 0 < len(found) <= _LONGEST_INSTANCE_ID
    return found if is_one else None


def _make_id(path: Path) -> None:
    """Write a new id; where another process that begins at the same time made one, that one stays."""
    written = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    written.write_text(uuid.uuid4().hex)
    try:
        if path.exists() and _id_in(path) is None:  # damaged
            written.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(written, path)
    except OSError:  # a file system without such links
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(path)
