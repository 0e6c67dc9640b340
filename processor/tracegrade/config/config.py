"""All settings of ``serve``: the sections of the stages joined, and those of what stands above them."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, create_model, model_validator

from tracegrade.access.quotas import QuotasSettings
from tracegrade.access.settings import AccessSettings
from tracegrade.alert.settings import AlertsSettings
from tracegrade.assemble.settings import TracesSettings
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.document.document import Document
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.paths import FilePath, read_as_path
from tracegrade.document.problem import FileError, Location, Problem
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.short_hash import short_hash
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.part import load, parts
from tracegrade.receive.settings import Endpoint, ListenSettings, ReceiversSettings, split_endpoint
from tracegrade.redact.settings import RedactionSettings
from tracegrade.rule.builtin import BUILTIN
from tracegrade.rule.reading import RuleReading
from tracegrade.store.files import DATA_DIR, sqlite_url
from tracegrade.store.settings import StoreSettings
from tracegrade.telemetry.series_bound import MAX_SERIES, MAX_TENANTS

if TYPE_CHECKING:
    from tracegrade.rule.rule_set import RuleSet

AUTO: Literal["auto"] = "auto"
MAX_WORKERS = 64
_EXPORTER_NAME = re.compile(r"otlp(/[A-Za-z0-9_.-]+)?")


def _exporter_name(name: str) -> str:
    if not _EXPORTER_NAME.fullmatch(name):
        raise ValueError(f"expected 'otlp' or 'otlp/NAME', found {name!r}; other kinds of exporters do not exist")
    return name


class RulesSettings(FileModel):
    """Where rules are."""

    paths: list[Annotated[str, read_as_path(lambda text: not text.startswith(BUILTIN))]] = Field(
        default=["builtin:default"],
        description="Rule files, folders of rule files, or builtin:NAME (all, default, a theme, a rule); []: no rules",
    )
    reload: Duration | None = Field(
        10.0, gt=0, description="How often to look for changed rule files; null: only at the start"
    )
    semantic_model: FilePath | None = Field(
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
    hang_timeout: Duration = Field(
        30.0,
        gt=0,
        description="A judge that gives no sign of life for this long hangs; time in which it waits for a processor "
        "does not count (Linux)",
    )
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
    """The number of processor cores that this process may use."""
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


class CoreConfig(FileModel):
    """All settings of ``serve`` but those of parts."""

    data_dir: FilePath = Field(DATA_DIR, description="Journal, results, positions and the SQLite store")
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
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings, description="Our own metrics")
    access: AccessSettings = Field(default_factory=AccessSettings, description="Who may call")
    quotas: QuotasSettings = Field(default_factory=QuotasSettings, description="How much each tenant may send and keep")
    web: WebSettings | None = Field(default_factory=WebSettings, description="The page and the API; null: neither")

    @model_validator(mode="after")
    def _keep_what_slices_read(self) -> Self:
        self.traces.keep(self.alerts.slices)
        return self

    _warnings: list[str] = PrivateAttr(default_factory=list)
    _document: Document | None = PrivateAttr(None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the settings file, each with file:line:column."""
        return tuple(self._warnings)

    def section(self, name: str) -> Any:
        """The section of this name, of a part that is there."""
        return getattr(self, name)

    @property
    def data_path(self) -> Path:
        """The data folder, as an absolute path."""
        return Path(self.data_dir).absolute()

    def load_rules(self, paths: Sequence[str] = ()) -> "RuleSet":
        """The rules at `paths`; without any, those of ``rules.paths``, whose mistakes have their line of the settings.

        Raises:
            as `load_rules` of rule files.
        """
        try:
            return self.rules.reading.load(paths or self.rules.paths)
        except FileError as error:
            if paths:
                raise
            raise FileError(map(self._at_its_line, error.problems)) from None

    def _at_its_line(self, problem: Problem) -> Problem:
        if problem.line or self._document is None or problem.path not in self.rules.paths:
            return problem
        location = ("rules", "paths", self.rules.paths.index(problem.path))
        return self._document.problem(location, f"{problem.path}: {problem.message}")

    @contextmanager
    def names_lines(self) -> Iterator[None]:
        """Add file:line:column to errors that begin with the path of a setting, such as ``web.auth.token_file:``."""
        try:
            yield
        except TraceGradeError as error:
            setting, colon, message = str(error).partition(": ")
            location = tuple(setting.split("."))
            if colon and self._document is not None and self._document.holds(location):
                error.args = (str(self._document.problem(location, message)),)
            raise

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
        return [split_endpoint(endpoint) for _, endpoint in listeners_of(self)]

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
        """Stands for the settings that assembly, extraction and matching read (promise 2).

        Installed dialects are part of it, by name, package and version. The model of `rules.semantic_model` is not: its
        content is part of the hash of each rule that compares by it, and its folder changes no result.
        """
        from tracegrade.plugins.installed import load_plugins

        dialects = [[plugin.name, plugin.package, plugin.version] for plugin in load_plugins().dialects]
        read = self.traces.model_dump(mode="json") | {"dialects": dialects}
        if kept := self.traces.kept_attributes:  # only then, so that who names none keeps the hash
            read["kept_attributes"] = sorted(kept)
        text = orjson.dumps(read, option=orjson.OPT_SORT_KEYS)
        return short_hash(text)


if TYPE_CHECKING:

    class Config(CoreConfig):
        """All settings of ``serve``, with the sections of the parts that are there."""

else:
    Config = create_model(
        "Config",
        __base__=CoreConfig,
        __module__=__name__,
        __doc__="All settings of ``serve``, with the sections of the parts that are there.",
        **{
            section.name: (model := load(section.model), Field(default_factory=model, description=section.about))
            for part in parts()
            for section in part.settings
        },
    )


def listeners_of(config: CoreConfig) -> list[tuple[Location, str]]:
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
