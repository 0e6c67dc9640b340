"""Conditions: what is wrong now, and since when. They begin, last and end, where metrics only count.

Each process keeps its `Conditions`; they leave it as part of its snapshot. ``/healthz``, ``/readyz``, the page and
``doctor`` show those of all. ``KINDS`` is the whole list.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tracegrade.display import elapsed_text

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of condition: what it means, what to do, whether senders are refused meanwhile."""

    meaning: str
    advice: str
    refuses: bool = False


KINDS: dict[str, Kind] = {
    # Receiving.
    "journal_full": Kind(
        "the journal has reached journal.max_size_mib, because a consumer that must not lose anything is behind",
        "find out why the consumer named is behind, or set journal.max_size_mib higher",
        refuses=True,
    ),
    "over_quota": Kind(
        "a tenant, or one of its services, sends more than its quota; requests beyond it are refused",
        "senders retry them; set the quota that the message names higher, or send less",
    ),
    "comes_back": Kind(
        "requests forwarded to another TraceGrade come back from there and are forwarded again: a loop",
        "remove one exporter of the loop; the message names the instance that sends the requests back",
    ),
    "disk_failing": Kind(
        "writing to the disk fails: it is full, read-only or broken",
        "free disk space, or check the disk; writing is retried every few seconds",
        refuses=True,
    ),
    "disk_slow": Kind(
        "too many requests wait to be written to disk", "check the disk, and what else uses it", refuses=True
    ),
    "data_folder_gone": Kind(
        "the data folder was deleted or replaced under the running process",
        "move it back to continue, or restart to begin with a new one",
        refuses=True,
    ),
    "kafka_unavailable": Kind(
        "the Kafka brokers do not confirm messages",
        "check that the brokers run and can be reached, and their log for the topic named",
        refuses=True,
    ),
    "kafka_unfit": Kind(
        "a Kafka topic lacks the settings that a journal needs, or they cannot be read",
        "change the topic as the message says; it is checked again every minute",
    ),
    "certificate_refused": Kind(
        "the files of a server's certificate have changed and cannot be used; the old one is used until it expires",
        "replace both files by a matching certificate and key; they are read again when they change",
    ),
    "redaction_key_changed": Kind(
        "the hash key was changed, and values hashed with the old one are still stored",
        "set the old key again if this was a mistake; otherwise hashes from before and after the change do not match "
        "until store.retention has passed",
    ),
    # Judging; receiving and forwarding go on.
    "judge_down": Kind(
        "the judge ended and has made no progress since",
        "its log says why it ended; it is restarted",
    ),
    "judge_silent": Kind(
        "the judge runs but has not reported its state for 15 s",
        "check whether the machine is overloaded or the disk slow",
    ),
    "judge_behind": Kind(
        "the judge stays more than 16 MiB behind the journal", "use fewer rules, or find the slow one"
    ),
    "judge_leaves_out": Kind(
        "the judge is so far behind that it leaves out spans of the largest senders, so that small ones lose none",
        "send less from the services that the message names, sample them, or use fewer rules",
    ),
    "record_set_aside": Kind(
        "a request or a trace crashed the judge twice and is set aside",
        "'tracegrade set-aside list' shows it, 'tracegrade set-aside retry' judges it again",
    ),
    "store_unavailable": Kind(
        "the store does not answer or cannot be read",
        "start or repair it, or move the file away; it is retried continually",
    ),
    "store_behind": Kind(
        "results wait more than 10 s to be stored, so lists, charts and alerts are late",
        "wait for it to catch up; if it lasts, find out what else uses the store or its disk, or judge less",
    ),
    "too_many_names": Kind(
        "a tenant sends more names of agents, services or releases than store.max_names; results of further ones are "
        "stored and listed by their name, and count as other in charts and alerts",
        "have the sender that the message names put ids into another attribute, or set store.max_names higher; unused "
        "names are freed once retention has deleted their counts",
    ),
    "store_updating": Kind("the store is being migrated after an upgrade", "wait: a large one takes minutes"),
    "kafka_client_failed": Kind(
        "a Kafka client failed permanently within the last minute and was replaced",
        "nothing, if it happens once, as after the restart of a broker; if it repeats, give each judge its own "
        "journal.kafka.instance_id",
    ),
    "kafka_misplaced": Kind(
        "messages of Kafka lie in other partitions than their keys say, so one trace may be judged in two parts",
        "have every producer hash keys by FNV-1a: the Collector's exporter does by default, librdkafka by "
        "partitioner=fnv1a; and do not change the number of partitions while traces are open",
    ),
    "rules_refused": Kind(
        "the changed rule files are invalid; the old rules stay in force", "'tracegrade rules check' says where"
    ),
    "too_many_series": Kind(
        "results have more rules, evaluations, agents and services than telemetry.max_series has room for; what does "
        "not fit counts as other in metrics, and in metrics alone",
        "set telemetry.max_series higher, or find out who puts ids into names; a restart clears the old ones",
    ),
    # The rest.
    "deletion_damaged": Kind(
        "a file that says what to delete, or what was deleted, is damaged",
        "request the deletion again; the message names the file",
    ),
    "exporter_failing": Kind(
        "this exporter's endpoint does not accept requests; they wait in the journal",
        "check whether the endpoint can be reached",
    ),
    "parquet_failing": Kind(
        "Parquet files cannot be written; rows wait in the results journal",
        "check whether parquet.url can be reached and written to; the log has its answer",
    ),
    "web_port_taken": Kind(
        "another process listens on web.endpoint, perhaps one left from an earlier start",
        "stop it, or choose another endpoint; listening is retried continually",
    ),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A state that lasts: its ``name`` among `KINDS`, ``where`` ("" when there is one of it), since when, in words."""

    name: str
    where: str
    since_ns: int
    message: str

    @property
    def refuses(self) -> bool:
        """Whether senders are refused meanwhile."""
        return KINDS[self.name].refuses if self.name in KINDS else False

    @property
    def advice(self) -> str:
        """Advice on the condition."""
        return KINDS[self.name].advice if self.name in KINDS else ""

    def to_json(self) -> dict[str, Any]:
        """The condition in the form of a snapshot."""
        return {"name": self.name, "where": self.where, "since_ns": self.since_ns, "message": self.message}


class Conditions:
    """The conditions of one process. Thread-safe; log lines are written when one begins and when it ends."""

    def __init__(self, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._current: dict[tuple[str, str], Condition] = {}

    def begin(self, name: str, message: str, where: str = "") -> None:
        """It is so now; one that holds already keeps its time and says `message` from now on."""
        KINDS[name]  # a KeyError here is a misspelt name
        key = (name, where)
        with self._lock:
            held = self._current.get(key)
            since_ns = held.since_ns if held is not None else self._now_ns()
            self._current[key] = Condition(name, where, since_ns, message)
        if held is None:
            logger.warning("%s: %s", _full_name(name, where), message)

    def end(self, name: str, where: str = "") -> None:
        """It is not so, or no more."""
        with self._lock:
            held = self._current.pop((name, where), None)
        if held is not None:
            lasted = elapsed_text(max(0, self._now_ns() - held.since_ns))
            logger.warning("%s is over, after %s", _full_name(name, where), lasted)

    def say(self, name: str, message: str | None, where: str = "") -> None:
        """`begin` with `message`, `end` for None."""
        if message is None:
            self.end(name, where)
        else:
            self.begin(name, message, where)

    def holds(self, name: str, where: str = "") -> bool:
        """Whether it is so now."""
        return (name, where) in self._current

    def resume(self, earlier: Iterable[Condition]) -> None:
        """Go on with what an earlier process has begun: it has been logged, and lasts since then."""
        with self._lock:
            self._current.update({(condition.name, condition.where): condition for condition in earlier})

    def current(self) -> list[Condition]:
        """Conditions that hold now, the oldest first."""
        with self._lock:
            return sorted(self._current.values(), key=lambda condition: (condition.since_ns, condition.name))


def conditions_in(snapshot: dict[str, Any]) -> list[Condition]:
    """The conditions that a role's snapshot holds; none for one of an earlier version."""
    return [Condition(**found) for found in snapshot.get("conditions", ())]


def _full_name(name: str, where: str) -> str:
    return f"{name} ({where})" if where else name
