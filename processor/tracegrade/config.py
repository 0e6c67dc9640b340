"""All settings of ``serve``: the stages' own joined, and those of what stands above this; file < environment < flags.

One YAML file in the collector's words; ``${env:NAME:-default}`` is replaced before typing. Everything is checked at
start: an unknown key, a wrong value, one address for two listeners or an exporter that points at the own receiver
stops it with file:line:column.
"""

import os
import re
from hashlib import blake2b
from pathlib import Path
from socket import gethostname
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from tracegrade.access.quotas import QuotasSettings
from tracegrade.access.settings import AccessSettings
from tracegrade.alert.settings import AlertsSettings
from tracegrade.assemble.settings import TracesSettings
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.document.document import Document
from tracegrade.document.duration import duration_text
from tracegrade.document.file_model import Duration, FileModel, write_durations
from tracegrade.document.problem import FileError, Location, Problem, dotted
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import parse, read
from tracegrade.journal.settings import FAIR_FROM_MIB, JournalSettings
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.receive.settings import Endpoint, ListenSettings, ReceiversSettings, is_loopback, split_endpoint
from tracegrade.redact.settings import RedactionSettings
from tracegrade.rule.reading import RuleReading
from tracegrade.store.place import DATA_DIR, sqlite_url
from tracegrade.store.settings import StoreSettings
from tracegrade.suites.settings import SuitesSettings
from tracegrade.telemetry.series_bound import MAX_SERIES, MAX_TENANTS

AUTO: Literal["auto"] = "auto"
MAX_WORKERS = 64
_EXPORTER_NAME = re.compile(r"otlp(/[A-Za-z0-9_.-]+)?")


def _exporter_name(name: str) -> str:
    if not _EXPORTER_NAME.fullmatch(name):
        raise ValueError(f"expected 'otlp' or 'otlp/NAME', found {name!r}; other kinds of exporters do not exist")
    return name


class RulesSettings(FileModel):
    """Where rules are."""

    paths: list[str] = Field(
        default=["builtin:default"],
        description="Rule files, folders of rule files, or builtin:NAME (all, default, a theme, a rule); []: no rules",
    )
    reload: Duration | None = Field(
        10.0, gt=0, description="How often to look for changed rule files; null: only at the start"
    )
    semantic_model: str | None = Field(
        None, description="Folder of a model2vec model for $semantic; needs the extra tracegrade[semantic]"
    )
    allow_code: bool = Field(
        False,
        description="Whether a rule may name an evaluator in a Python file beside it, as evaluator: ./amounts.py; that "
        "file then runs with all rights of the process",
    )

    @property
    def reading(self) -> RuleReading:
        """How the files at ``paths``, or at others in their place, are read."""
        return RuleReading(self.semantic_model, self.allow_code)


def _workers(found: object) -> object:
    if found == AUTO or (isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= MAX_WORKERS):
        return found
    raise ValueError(
        f"expected a number of judges from 1 to {MAX_WORKERS}, or {AUTO} (one for each core but one), found {found!r}"
    )


class JudgeSettings(FileModel):
    """The judge process and its watchdog."""

    workers: Annotated[int | Literal["auto"], BeforeValidator(_workers)] = Field(
        1,
        description="How many processes judge, each a share of the traces, 1 to 64; auto: one for each core but one. "
        "Memory bounds of `traces` hold for each of them",
    )
    watchdog: bool = Field(
        True,
        description="Restart a judge that hangs. What it hung on gets the outcome error: hung; what ended it "
        "three times, error: crashed",
    )
    hang_timeout: Duration = Field(30.0, gt=0, description="A judge that gives no sign of life for this long hangs")
    when_full: Literal["refuse", "drop_oldest"] = Field(
        "drop_oldest",
        description="When the journal is full because the judge is behind: refuse requests, or drop the oldest "
        "ones, counted",
    )
    include_values: bool = Field(
        False, description="Send the found and expected values to exporters and channels, not only their paths"
    )

    @property
    def worker_count(self) -> int:
        """``workers`` as a number, on this machine."""
        return max(1, cores() - 1) if self.workers == AUTO else int(self.workers)


def cores() -> int:
    """How many processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        return os.cpu_count() or 1


class TelemetrySettings(ListenSettings):
    """Our own metrics and health."""

    endpoint: Endpoint = Field(
        "127.0.0.1:8888", description="host:port of /metrics, /healthz and /readyz; loopback by default"
    )
    export_interval: Duration = Field(60.0, gt=0, description="How often our metrics go to the exporters")
    max_series: int = Field(
        MAX_SERIES,
        ge=100,
        description="Most series in Prometheus that rules and senders name; beyond them metrics say `other`. One "
        "evaluation of one agent at one service is 25",
    )
    max_tenants: int = Field(
        MAX_TENANTS, ge=0, description="Most tenants that metrics of results name; any more count as `other`"
    )


class WebSettings(ListenSettings):
    """The page for people, and the API."""

    endpoint: Endpoint = Field("127.0.0.1:4319", description="host:port of the page and the API; loopback by default")


class Config(FileModel):
    """All settings of ``serve``."""

    data_dir: str = Field(DATA_DIR, description="Journal, results, positions and the SQLite store")
    receivers: ReceiversSettings = Field(default_factory=ReceiversSettings, description="What listens")
    redaction: RedactionSettings | None = Field(
        None, description="Personal data and secrets taken out before anything is written"
    )
    journal: JournalSettings = Field(
        default_factory=JournalSettings,
        description="The durable hand-over from receiving to judging, and the archive for replay",
    )
    traces: TracesSettings = Field(
        default_factory=TracesSettings,
        description="When a trace is complete, and other names of tools",
    )
    rules: RulesSettings = Field(default_factory=RulesSettings, description="What is judged")
    judge: JudgeSettings = Field(default_factory=JudgeSettings, description="The judge process")
    store: StoreSettings = Field(default_factory=StoreSettings, description="The results store")
    parquet: ParquetSettings | None = Field(
        None, description="Results and tool calls as Parquet files; needs the extra tracegrade[parquet]"
    )
    exporters: dict[Annotated[str, AfterValidator(_exporter_name)], ExporterSettings] = Field(
        default_factory=dict,
        description="Where requests and results are sent: otlp, or several as otlp/NAME; a new one gets all that "
        "the journal keeps",
    )
    alerts: AlertsSettings = Field(default_factory=AlertsSettings, description="Who is notified of alerts")
    suites: SuitesSettings = Field(default_factory=SuitesSettings, description="Suites of cases")
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings, description="Our own metrics")
    access: AccessSettings = Field(default_factory=AccessSettings, description="Who may call")
    quotas: QuotasSettings = Field(default_factory=QuotasSettings, description="How much each tenant may send and keep")
    web: WebSettings | None = Field(default_factory=WebSettings, description="The page and the API; null: neither")

    @model_validator(mode="after")
    def _keep_what_slices_read(self) -> Self:
        self.traces.keep(self.alerts.slices)
        return self

    _warnings: list[str] = PrivateAttr(default_factory=list)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the settings file should say differently, each with file:line:column."""
        return tuple(self._warnings)

    @property
    def data_path(self) -> Path:
        """The data folder."""
        return Path(self.data_dir)

    @property
    def tokens_path(self) -> Path:
        """The file of the tokens that were made."""
        return self.data_path / "tokens.json" if self.access.tokens_file is None else Path(self.access.tokens_file)

    @property
    def store_url(self) -> str:
        """The store's URL; the SQLite file in the data folder unless the settings name another."""
        return self.store.url or sqlite_url(self.data_path)

    @property
    def listeners(self) -> list[tuple[str, int]]:
        """Host and port of each server of this instance."""
        return [split_endpoint(endpoint) for _, endpoint in _listeners(self)]

    @property
    def asks_for_tokens(self) -> bool:
        """Whether any server of this instance does."""
        protocols = self.receivers.otlp.protocols
        servers = (protocols.grpc, protocols.http, self.telemetry, self.web)
        return any(server is not None and server.auth is not None for server in servers)

    @property
    def remembers_deleted_for(self) -> float:
        """For how long, in s, the id of a deleted trace is remembered: as long as anything of a trace may be kept."""
        return max(self.store.retention, self.journal.max_age)

    @property
    def settings_hash(self) -> str:
        """Stands for what assembly, extraction, matching and matchers read beside rules (promise 2).

        Installed dialects are part of it, by name, package and version.
        """
        from tracegrade.plugins.installed import load_plugins

        dialects = [[plugin.name, plugin.package, plugin.version] for plugin in load_plugins().dialects]
        read = self.traces.model_dump(mode="json") | {
            "semantic_model": self.rules.semantic_model,
            "dialects": dialects,
        }
        if kept := self.traces.kept_attributes:  # only then, so that who names none keeps the hash
            read["kept_attributes"] = sorted(kept)
        text = orjson.dumps(read, option=orjson.OPT_SORT_KEYS)
        return blake2b(text, digest_size=8).hexdigest()


def load_config(path: Path | None, *, data_dir: str | None = None) -> Config:
    """Read and check the settings.

    Args:
        path: the YAML file, or None for the defaults.
        data_dir: a flag's value, which wins over the file's.

    Raises:
        FileError: every mistake with its line and column.
    """
    document = read(path, expand_env=True) if path is not None else parse("", "settings")
    if data_dir is not None and (document.value is None or isinstance(document.value, dict)):
        document.value = {**(document.value or {}), "data_dir": data_dir}
    warnings = _with_new_names(document)
    config = validate(document, Config)
    config._warnings.extend([*warnings, *_too_many_workers(config), *_too_small_to_share(config)])
    if problems := [
        *_shared_addresses(document, config),
        *_loops(document, config),
        *_store_of_one(document, config),
        *_parquet_in_data(document, config),
        *_values_kept_longer(document, config),
        *_tenants_kept_longer(document, config),
        *_redacts_nothing(document, config),
        *_users_without_auth(document, config),
    ]:
        raise FileError(problems)
    return config


def settings_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the settings file; defaults as one would write them."""
    schema = Config.model_json_schema()
    write_durations(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _listeners(config: Config) -> list[tuple[Location, str]]:
    """Where each server's endpoint is set, and the endpoint."""
    protocols = config.receivers.otlp.protocols
    named = {"grpc": protocols.grpc, "http": protocols.http}
    listeners: list[tuple[Location, str]] = [
        (("receivers", "otlp", "protocols", name, "endpoint"), protocol.endpoint)
        for name, protocol in named.items()
        if protocol is not None
    ]
    listeners.append((("telemetry", "endpoint"), config.telemetry.endpoint))
    if config.web is not None:
        listeners.append((("web", "endpoint"), config.web.endpoint))
    return listeners


def _with_new_names(document: Document) -> list[str]:
    """Read keys that were renamed by their new names; a warning for each that the file still calls by the old one."""
    found = [document.rename_key(("alerts",), "receivers", "channels")]
    alerts = document.value.get("alerts") if isinstance(document.value, dict) else None
    routes = alerts.get("routes") if isinstance(alerts, dict) else None
    for number in range(len(routes) if isinstance(routes, list) else 0):
        found.append(document.rename_key(("alerts", "routes", number), "receivers", "channels"))
    return [str(warning) for warning in found if warning is not None]


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


def _shared_addresses(document: Document, config: Config) -> list[Problem]:
    """Two servers cannot listen on one address."""
    problems: list[Problem] = []
    taken: list[tuple[Location, str]] = []
    for location, endpoint in _listeners(config):
        for other, earlier in taken:
            if _may_be_the_same(split_endpoint(endpoint), split_endpoint(earlier)):
                problems.append(
                    document.problem(location, f"{endpoint} is taken by {dotted(other)}; give each its own port")
                )
        taken.append((location, endpoint))
    return problems


def _loops(document: Document, config: Config) -> list[Problem]:
    """An exporter that points at an own receiver would send everything in a circle (promise 11)."""
    own = [split_endpoint(endpoint) for location, endpoint in _listeners(config) if location[0] == "receivers"]
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
    return [document.problem(("store", "url"), message)]


def _parquet_in_data(document: Document, config: Config) -> list[Problem]:
    """Everything in the data folder is ours to delete, and what reads Parquet files would find it all above it."""
    if config.parquet is None or config.parquet.is_s3:
        return []
    folder, data = Path(config.parquet.url).resolve(), config.data_path.resolve()
    if not (folder.is_relative_to(data) or data.is_relative_to(folder)):
        return []
    message = f"{config.parquet.url!r} and data_dir {config.data_dir!r} must not be in each other; name another folder"
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
        problems.append(document.problem(("journal", "max_age"), f"{at_most}: requests hold all values; {found}"))
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


def _users_without_auth(document: Document, config: Config) -> list[Problem]:
    """Who does not come through the proxy that signs users in has to be asked for a token."""
    if config.access.user_header is None or config.web is None or config.web.auth is not None:
        return []
    message = "access.user_header needs web.auth, so that who comes past the proxy is asked for a token; write auth: {}"
    return [document.problem(("web",), message)]


def _redacts_nothing(document: Document, config: Config) -> list[Problem]:
    """Who writes the section believes that values are kept out."""
    if config.redaction is None or not config.redaction.changes_nothing:
        return []
    message = (
        "nothing is redacted: there are no detectors, no patterns, no names_file, no places, and default is keep; name "
        "one of them, or remove the section"
    )
    return [document.problem(("redaction",), message)]


def _may_be_the_same(target: tuple[str, int], listening: tuple[str, int]) -> bool:
    """Whether a client of `target` would reach a server on `listening`, as far as the names tell."""
    if target[1] != listening[1] or listening[1] == 0:
        return False
    if listening[0] in ("0.0.0.0", "::"):
        return target[0] in ("0.0.0.0", "::", gethostname()) or is_loopback(target[0])
    return target[0] == listening[0] or (is_loopback(target[0]) and is_loopback(listening[0]))
