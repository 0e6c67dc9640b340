"""Mistakes that several sections of the settings make together, and what is unwise."""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from pathlib import Path
from socket import gethostname

from tracegrade.config.config import Config, cores, listeners_of
from tracegrade.document.address import is_loopback
from tracegrade.document.document import Document
from tracegrade.document.duration import duration_text
from tracegrade.document.problem import Location, Problem, dotted
from tracegrade.journal.settings import FAIR_FROM_MIB
from tracegrade.receive.settings import split_endpoint
from tracegrade.store.files import holds_data, sqlite_path


def _left_behind(document: Document, config: Config) -> Iterator[Problem]:
    """Refuse to begin anew at an empty place where earlier versions, from this working directory, read another."""
    places: list[tuple[tuple[str, ...], Callable[[str], Path | None], Callable[[Path], bool]]] = [
        (("data_dir",), Path, holds_data),
        (("store", "url"), sqlite_path, Path.exists),
        (("access", "tokens_file"), Path, Path.exists),
    ]
    for location, path_of, is_there in places:
        written, read_as = document.at(location), reduce(getattr, location, config)
        if not isinstance(written, str) or not isinstance(read_as, str) or written == read_as:
            continue
        before, now = path_of(written), path_of(read_as)
        if before is not None and now is not None and not is_there(now) and is_there(before):
            yield document.problem(
                location,
                f"found nothing at {now}, since paths are relative to the file that names them, but something at "
                f"{before.absolute()}, relative to the working directory; write the absolute path of the one to use",
            )


def _shared_addresses(document: Document, config: Config) -> list[Problem]:
    """Two servers cannot listen on one address."""
    problems: list[Problem] = []
    taken: list[tuple[Location, str]] = []
    for location, endpoint in listeners_of(config):
        for other, earlier in taken:
            if _may_be_the_same(split_endpoint(endpoint), split_endpoint(earlier)):
                problems.append(
                    document.problem(location, f"{endpoint} is taken by {dotted(other)}; give each its own port", other)
                )
        taken.append((location, endpoint))
    return problems


def _loops(document: Document, config: Config) -> list[Problem]:
    """An exporter that points at an own receiver would send everything in a circle (promise 11)."""
    own = [split_endpoint(endpoint) for location, endpoint in listeners_of(config) if location[0] == "receivers"]
    return [
        document.problem(
            ("exporters", name, "endpoint"),
            f"{exporter.endpoint} is this instance's own receiver; name another collector or backend",
        )
        for name, exporter in config.exporters.items()
        if any(_may_be_the_same(exporter.address, listening) for listening in own)
    ]


def _store_of_one(document: Document, config: Config) -> list[Problem]:
    """Judges of one consumer group find each other's traces in the store, so it cannot be a file of one machine."""
    if config.journal.kafka is None or not config.store_url.startswith("sqlite"):
        return []
    message = (
        "journal.kafka needs a store that all judges share; write postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
    )
    return [document.problem(("store", "url"), message, ("journal", "kafka"))]


def _parquet_in_data(document: Document, config: Config) -> list[Problem]:
    """Everything in the data folder is ours to delete, and what reads Parquet files would find it all above it."""
    if config.parquet is None or config.parquet.is_s3:
        return []
    folder, data = Path(config.parquet.url).resolve(), config.data_path.resolve()
    if not (folder.is_relative_to(data) or data.is_relative_to(folder)):
        return []
    message = (
        f"{config.parquet.url!r} and data_dir {str(config.data_path)!r} must not be in each other; name another folder"
    )
    return [document.problem(("parquet", "url"), message)]


def _values_kept_longer(document: Document, config: Config) -> list[Problem]:
    """What else holds values must not keep them longer; and what is still judged must find them."""
    values = config.store.values_retention
    if values is None:
        return []
    at_most = f"store.values_retention is {duration_text(values)}, so this must not be longer"
    problems = []
    if config.journal.kafka is None and config.journal.max_age > values:
        found = f"found {duration_text(config.journal.max_age)}"
        message = f"{at_most}: requests hold all values; {found}"
        problems.append(document.problem(("journal", "max_age"), message, ("store", "values_retention")))
    parquet = config.parquet
    if parquet is not None and parquet.include_values and (parquet.retention is None or parquet.retention > values):
        found = "it is not set" if parquet.retention is None else f"found {duration_text(parquet.retention)}"
        problems.append(document.problem(("parquet", "retention"), f"{at_most}, as include_values is true; {found}"))
    reopened = config.traces.max_age + config.traces.reopen_for
    if values < reopened:
        message = (
            f"expected at least traces.max_age + traces.reopen_for ({duration_text(reopened)}), found "
            f"{duration_text(values)}: a trace is judged again when a late span comes"
        )
        problems.append(document.problem(("store", "values_retention"), message))
    return problems


def _tenants_kept_longer(document: Document, config: Config) -> list[Problem]:
    """A quota takes away from what holds for every tenant, and adds nothing to it."""
    longest = config.store.retention
    return [
        document.problem(
            ("quotas", "tenants", tenant, "stored_for"),
            f"expected at most store.retention ({duration_text(longest)}), which deletes the traces of every tenant, "
            f"found {duration_text(stored)}; set store.retention higher, and a quota for who may keep less",
        )
        for tenant, stored in config.quotas.stored_for.items()
        if stored > longest
    ]


def _redacts_nothing(document: Document, config: Config) -> list[Problem]:
    """Who writes the section believes that values are kept out."""
    if config.redaction is None or not config.redaction.changes_nothing:
        return []
    message = (
        "nothing is redacted: there are no detectors, no patterns, no names_file, no places, and default is keep; name "
        "one of them, or remove the section"
    )
    return [document.problem(("redaction",), message)]


def _users_without_auth(document: Document, config: Config) -> list[Problem]:
    """Who does not come through the proxy that signs users in has to be asked for a token."""
    if config.access.user_header is None or config.web is None or config.web.auth is not None:
        return []
    message = (
        "access.user_header needs web.auth, so that requests that bypass the proxy must present a token; write auth: {}"
    )
    return [document.problem(("web",), message, ("access", "user_header"))]


def _may_be_the_same(target: tuple[str, int], listening: tuple[str, int]) -> bool:
    """Whether a client of `target` would reach a server on `listening`, as far as the names tell."""
    if target[1] != listening[1] or listening[1] == 0:
        return False
    if listening[0] in ("0.0.0.0", "::"):
        return target[0] in ("0.0.0.0", "::", gethostname()) or is_loopback(target[0])
    return target[0] == listening[0] or (is_loopback(target[0]) and is_loopback(listening[0]))


def _too_small_to_share(config: Config) -> list[str]:
    """A warning where the journal loses what small senders sent before the judge can leave out who sends most."""
    journal = config.journal
    if journal.kafka is not None or config.judge.when_full != "drop_oldest" or journal.max_size_mib >= FAIR_FROM_MIB:
        return []
    return [
        f"journal.max_size_mib: {journal.max_size_mib} MiB fill faster than the judge can leave out who sends most, so "
        f"that small senders lose as much as others; set it to {FAIR_FROM_MIB} or more"
    ]


def _too_many_workers(config: Config) -> list[str]:
    """A warning where more processes would judge than there are cores."""
    workers, there = config.judge.worker_count, cores()
    if workers <= there:
        return []
    return [
        f"judge.workers: {workers} judges share {there} core{'' if there == 1 else 's'}: more than one for each core "
        "are slower together"
    ]


CHECKS: tuple[Callable[[Document, Config], Iterable[Problem]], ...] = (
    _left_behind,
    _shared_addresses,
    _loops,
    _store_of_one,
    _parquet_in_data,
    _values_kept_longer,
    _tenants_kept_longer,
    _redacts_nothing,
    _users_without_auth,
)
"""Each gives the problems that stop the start."""

WARNINGS: tuple[Callable[[Config], list[str]], ...] = (_too_many_workers, _too_small_to_share)
"""Each gives what the settings file should say differently."""
