import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from yaml import safe_load

from build import each
from build.without_parts import of_all_parts
from tracegrade.config import Config, load_config, settings_schema
from tracegrade.document.problem import FileError
from tracegrade.otlp.exporter_settings import ExporterSettings

EXAMPLE = Path(__file__).parents[1] / "deploy" / "config.example.yaml"


def _write(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(dedent(text))
    return path


def _mistakes(folder: Path, text: str) -> list[str]:
    """What is said of a file, each line without the path before it."""
    path = _write(folder, text)
    with pytest.raises(FileError) as caught:
        load_config(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:").replace(f"{folder}", "HERE") for line in lines]


def test_without_a_file_everything_has_a_default() -> None:
    config = load_config(None)
    assert config.model_dump() == Config().model_dump()
    assert config.receivers.otlp.protocols.grpc is not None
    assert config.receivers.otlp.protocols.grpc.endpoint == "127.0.0.1:4317"
    assert config.store_url == f"sqlite:///{Path.cwd()}/tracegrade-data/tracegrade.db"
    assert not config.exporters


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load_config(_write(tmp_path, "# nothing yet\n")).model_dump() == Config().model_dump()


MISTAKES = [
    pytest.param("recievers: {}", ["1:1: recievers: unknown key 'recievers'; did you mean 'receivers'?"], id="section"),
    pytest.param(
        """\
        journal:
          sync: always
          max_size: 100
        """,
        ["3:3: journal.max_size: unknown key 'max_size'; did you mean 'max_size_mib'?"],
        id="key",
    ),
    pytest.param(
        "traces: {settle: 5}",
        ["1:10: traces.settle: expected a duration such as '30s', '500ms' or '1h30m', found 5"],
        id="duration without a unit",
    ),
    pytest.param(
        "alerts: {slices: [app.customer, app.tier, app.customer]}",
        ["1:10: alerts.slices: expected each attribute once, found 'app.customer' more than once"],
        id="an attribute twice",
    ),
    pytest.param(
        "alerts: {slices: [model]}",
        ["1:10: alerts.slices: expected names of attributes, found 'model', which alerts tell anyway; remove it"],
        id="no attribute",
    ),
    pytest.param(
        "journal: {max_size_mib: '2048'}",
        ["1:11: journal.max_size_mib: expected a whole number, found '2048'"],
        id="text for a number",
    ),
    pytest.param("journal: {sync: never}", ["1:11: journal.sync: expected 'always' or 'interval', found 'never'"]),
    pytest.param(
        "traces: {settle: 2m, idle_timeout: 1m}",
        ["1:1: traces: expected settle <= idle_timeout <= max_age, found 120s, 60s, 3600s"],
        id="times out of order",
    ),
    pytest.param(
        """\
        traces:
          overrides:
            - {service: batch-*, settle: 2m, max_age: 5m}
            - {settle: 3s}
            - {agent: researcher}
        """,
        [
            "3:7: traces.overrides[0]: expected settle <= idle_timeout <= max_age, found 2m, 1m (of traces), 5m; "
            "set those that are missing here too",
            "4:7: traces.overrides[1]: expected service, agent or both: whose traces are meant",
            "5:7: traces.overrides[2]: expected at least one of settle, idle_timeout, max_age, end_attribute",
        ],
        id="overrides that cannot be",
    ),
    pytest.param(
        """\
        traces:
          tool_aliases:
            search: [find, "web[z"]
            find: [search, look]
            seek: [look]
        """,
        [
            "3:14: traces.tool_aliases.search[0]: 'find' is itself the name of a tool here; choose one of both",
            "3:20: traces.tool_aliases.search[1]: '[' without ']' in the glob 'web[z'; "
            "write '[[]' for a literal bracket",
            "4:12: traces.tool_aliases.find[0]: 'search' is itself the name of a tool here; choose one of both",
            "5:12: traces.tool_aliases.seek[0]: 'look' is an alias of 'find' already; a name stands for one tool",
        ],
        id="names of two tools",
    ),
    pytest.param(
        """\
        traces:
          prices:
            "gpt-[4": {input: 2.5, output: 10}
            o3: {input: 2}
            o4: {input: -1, output: free}
        """,
        [
            "4:5: traces.prices.o3: key 'output' is missing",
            "5:10: traces.prices.o4.input: expected a number of at least 0, found -1",
            "5:21: traces.prices.o4.output: expected a number, found 'free'",
        ],
        id="prices that are none",
    ),
    pytest.param(
        'traces: {prices: {"gpt-[4": {input: 2.5, output: 10}}}',
        ["1:19: traces.prices.gpt-[4: '[' without ']' in the glob 'gpt-[4'; write '[[]' for a literal bracket"],
        id="a model's name that is no glob",
    ),
    pytest.param(
        "journal: {sync: always}\njournal: {sync: interval}\n", ["2:1: duplicate key 'journal'"], id="duplicate key"
    ),
    pytest.param(
        "parquet: {url: 'gs://results/x'}",
        ["1:11: parquet.url: expected a folder or s3://BUCKET/PREFIX, found 'gs://results/x'"],
        id="a bucket of another kind",
    ),
    pytest.param(
        "parquet: {url: 's3://key:secret@results/x'}",
        [
            "1:11: parquet.url: expected s3://BUCKET/PREFIX with a bucket of 3 to 63 lower-case letters, digits, '-' "
            "and '.', found 'key:**********@results'; keys belong into parquet.s3"
        ],
        id="keys in the address",
    ),
    pytest.param("parquet: {every: 1m}", ["1:1: parquet: key 'url' is missing"], id="Parquet files nowhere"),
    pytest.param(
        "data_dir: ./data\nparquet: {url: ./data/parquet}",
        [
            "2:11: parquet.url: 'HERE/data/parquet' and data_dir 'HERE/data' must not be in each other; name another "
            "folder"
        ],
        id="Parquet files in the data folder",
    ),
    pytest.param(
        "data_dir: ./data\nparquet: {url: .}",
        ["2:11: parquet.url: 'HERE' and data_dir 'HERE/data' must not be in each other; name another folder"],
        id="the data folder among Parquet files",
    ),
    pytest.param(
        "store: {values_retention: 12h}",
        [
            "1:9: journal.max_age: store.values_retention is 12h, so this must not be longer: requests hold all "
            "values; found 1d"
        ],
        id="requests kept longer than values",
    ),
    pytest.param(
        "store: {values_retention: 7d}\nparquet: {url: ./parquet, include_values: true}",
        [
            "2:1: parquet.retention: store.values_retention is 7d, so this must not be longer, as include_values is "
            "true; it is not set"
        ],
        id="Parquet files kept longer than values",
    ),
    pytest.param(
        "store: {values_retention: 1h}\njournal: {max_age: 1h}",
        [
            "1:9: store.values_retention: expected at least traces.max_age + traces.reopen_for (70m), found 1h: a "
            "trace is judged again when a late span comes"
        ],
        id="values go before a late span may come",
    ),
    pytest.param(
        "store: {values_retention: 60d}",
        [
            "1:1: store: values_retention 60d is longer than retention 30d, which deletes all of a trace; make it "
            "shorter, or remove it"
        ],
        id="values kept longer than scores",
    ),
    pytest.param(
        "store: {retention: 7d}\nquotas: {tenants: {shop: {stored_for: 8d}, bank: {stored_for: 7d}}}",
        [
            "2:27: quotas.tenants.shop.stored_for: expected at most store.retention (7d), which deletes the traces of "
            "every tenant, found 8d; set store.retention higher, and a quota for who may keep less"
        ],
        id="a tenant's traces kept longer than all",
    ),
    pytest.param(
        "parquet: {url: ./parquet, s3: {region: x}}",
        ["1:1: parquet: s3 is for an url that begins with s3://, found 'HERE/parquet'; remove it, or change url"],
        id="a region of a folder",
    ),
    pytest.param(
        "parquet: {url: 's3://results', s3: {access_key_id: x}}",
        ["1:32: parquet.s3: found access_key_id without secret_access_key; set both, or neither to use AWS's own ways"],
        id="half of the keys",
    ),
    pytest.param(
        "parquet: {url: 's3://results', s3: {endpoint: 'minio:9000'}}",
        ["1:37: parquet.s3.endpoint: expected http://HOST:PORT or https://HOST:PORT, found 'minio:9000'"],
        id="an S3 server without a scheme",
    ),
    pytest.param("- journal", ["1:1: expected an object, found a list of 1"], id="a list"),
    pytest.param(
        "journal: {sync: always",
        [
            "1:23: not YAML: did not find expected ',' or '}'; close the bracket, "
            "or quote a text that has brackets or commas in it"
        ],
        id="not YAML",
    ),
    pytest.param(
        """\
        receivers:
          otlp:
            protocols:
              grpc: {endpoint: 0.0.0.0:4317}
        """,
        [
            "4:7: receivers.otlp.protocols.grpc: '0.0.0.0:4317' can be reached from other machines and has no tls "
            "and no auth (or tls.client_ca_file); set tls and auth (or tls.client_ca_file), or insecure: true when the "
            "network is trusted"
        ],
        id="plaintext beyond loopback",
    ),
    pytest.param(
        "telemetry: {endpoint: '8888'}",
        ["1:13: telemetry.endpoint: expected host:port such as '127.0.0.1:4317', found '8888'"],
        id="endpoint without a host",
    ),
    pytest.param(
        """\
        exporters:
          otlp: {endpoint: collector}
          otlp/b: {endpoint: "http://collector:4317"}
        """,
        [
            "2:3: exporters.otlp: endpoint: expected host:port, found 'collector'; OTLP/gRPC usually listens on 4317",
            "3:3: exporters.otlp/b: endpoint: expected host:port for protocol grpc, found 'http://collector:4317'; "
            "write 'collector:4317' and tls: {insecure: true}",
        ],
        id="every wrong exporter is named",
    ),
    pytest.param(
        """\
        exporters:
          console: {endpoint: "collector:4317"}
        traces: {settle: never}
        """,
        [
            "2:3: exporters.console: expected 'otlp' or 'otlp/NAME', found 'console'; "
            "other kinds of exporters do not exist",
            "3:10: traces.settle: expected a duration such as '30s', '500ms' or '1h30m', found 'never'",
        ],
        id="exporter of another kind, beside another mistake",
    ),
    pytest.param(
        "exporters: {otlp: {endpoint: 'collector:4317', tenants: []}}",
        ["1:48: exporters.otlp.tenants: expected a list of at least 1, found an empty list"],
        id="an exporter for nobody",
    ),
    pytest.param(
        "exporters: {otlp: {endpoint: 'collector:4317', tenant: shop}}",
        ["1:48: exporters.otlp.tenant: unknown key 'tenant'; did you mean 'tenants'?"],
        id="an exporter for a tenant by another word",
    ),
    pytest.param(
        "alerts: {channels: {ops: {slack: {url: 'https://x/'}, tenants: [shop, '../shop']}}}",
        [
            "1:71: alerts.channels.ops.tenants[1]: expected a tenant of 1 to 64 letters (a to z, A to Z), digits, '.', "
            "'_' and '-', the first a letter or digit, found '../shop'"
        ],
        id="a channel for what can be no tenant",
    ),
    pytest.param(
        "alerts: {channels: {exporters.otlp/shop: {webhook: {url: 'https://x/'}, tenants: [shop]}}}",
        [
            "1:21: alerts.channels.exporters.otlp/shop: expected a name that begins otherwise: exporters.NAME is "
            "notified as an exporter"
        ],
        id="a channel by the name of an exporter, which is for other tenants",
    ),
    pytest.param(
        "alerts: {channels: {ops: {tenants: [shop]}}}",
        [
            "1:21: alerts.channels.ops: expected one of webhook, alertmanager, slack, pagerduty, email, apprise, found "
            "none"
        ],
        id="a channel for a tenant of no kind",
    ),
    pytest.param(
        "exporters: {otlp: {tls: {insecure: true}}}",
        ["1:13: exporters.otlp: key 'endpoint' is missing"],
        id="nowhere to send to",
    ),
    pytest.param(
        """\
        receivers:
          otlp:
            protocols:
              grpc: {endpoint: 127.0.0.1:4317}
              http: {endpoint: localhost:4317}
        telemetry: {endpoint: 127.0.0.1:4317}
        """,
        [
            "5:14: receivers.otlp.protocols.http.endpoint: localhost:4317 is taken by "
            "receivers.otlp.protocols.grpc.endpoint; give each its own port",
            "6:13: telemetry.endpoint: 127.0.0.1:4317 is taken by "
            "receivers.otlp.protocols.grpc.endpoint; give each its own port",
            "6:13: telemetry.endpoint: 127.0.0.1:4317 is taken by "
            "receivers.otlp.protocols.http.endpoint; give each its own port",
        ],
        id="three servers on one address",
    ),
    pytest.param(
        "store: {retention: 0s}",
        ["1:9: store.retention: expected a duration above 0s, found '0s'"],
        id="kept for no time",
    ),
]


@each(("text", "mistakes"), MISTAKES)
def test_a_mistake_is_named_where_it_stands(tmp_path: Path, text: str, mistakes: list[str]) -> None:
    assert _mistakes(tmp_path, text) == mistakes


def test_a_missing_file_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nowhere\.yaml:1:1: cannot be read: No such file or directory"):
        load_config(tmp_path / "nowhere.yaml")


LISTENING = """\
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "{listening}", insecure: true}}
exporters:
  otlp/next:
    protocol: {protocol}
    endpoint: {target}
    tls: {{insecure: true}}
"""


@each(
    ("listening", "protocol", "target"),
    [
        ("127.0.0.1:4317", "grpc", "127.0.0.1:4317"),
        ("127.0.0.1:4317", "grpc", "localhost:4317"),
        ("127.0.0.1:4317", "grpc", "'[::1]:4317'"),
        ("0.0.0.0:4317", "grpc", "localhost:4317"),
        ("0.0.0.0:4317", "grpc", "this-machine:4317"),
        ("10.1.2.3:4317", "grpc", "10.1.2.3:4317"),
        ("127.0.0.1:4317", "http", "http://localhost:4317/otlp"),
        ("127.0.0.1:80", "http", "http://localhost"),
    ],
)
def test_an_exporter_that_points_at_the_own_receiver_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listening: str, protocol: str, target: str
) -> None:
    monkeypatch.setattr("tracegrade.config.checks.gethostname", lambda: "this-machine")
    (mistake,) = _mistakes(tmp_path, LISTENING.format(listening=listening, protocol=protocol, target=target))
    assert mistake == (
        f"8:5: exporters.otlp/next.endpoint: {target.strip(chr(39))} is this instance's own receiver; "
        "name another collector or backend"
    )


@pytest.mark.parametrize(
    ("listening", "target"),
    [("127.0.0.1:4317", "127.0.0.1:14317"), ("127.0.0.1:4317", "collector:4317"), ("127.0.0.1:0", "localhost:4317")],
)
def test_an_exporter_that_points_elsewhere_is_fine(tmp_path: Path, listening: str, target: str) -> None:
    config = load_config(_write(tmp_path, LISTENING.format(listening=listening, protocol="grpc", target=target)))
    assert config.exporters["otlp/next"].endpoint == target


TOKEN = 'exporters: {otlp: {endpoint: "${env:PEER:-collector:4317}", headers: {authorization: "Bearer ${env:TOKEN}"}}}'


def test_environment_variables_are_replaced_before_types_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    monkeypatch.setenv("LIMIT", "512")
    config = load_config(_write(tmp_path, TOKEN + "\njournal:\n  max_size_mib: ${env:LIMIT}\n"))
    exporter = config.exporters["otlp"]
    assert exporter.endpoint == "collector:4317"
    assert exporter.headers["authorization"].get_secret_value() == "Bearer s3cret"
    assert config.journal.max_size_mib == 512


def test_an_unset_variable_without_default_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    assert _mistakes(tmp_path, TOKEN) == [
        "1:86: environment variable TOKEN is not set; set it, or give a default: ${env:TOKEN:-default}"
    ]


def test_the_flag_wins_over_the_file(tmp_path: Path) -> None:
    path = _write(tmp_path, "data_dir: /from/file\njournal: {sync: interval}\n")
    config = load_config(path, data_dir="/from/flag")
    assert (config.data_dir, config.journal.sync) == ("/from/flag", "interval")
    assert load_config(_write(tmp_path, ""), data_dir="/from/flag").data_dir == "/from/flag"


def test_the_flag_hides_no_mistake_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="expected an object, found a list of 1"):
        load_config(_write(tmp_path, "- journal"), data_dir="/from/flag")


def test_only_what_changes_results_changes_the_settings_hash(tmp_path: Path) -> None:
    usual = load_config(None).settings_hash
    assert load_config(_write(tmp_path, "journal: {sync: interval}")).settings_hash == usual
    assert load_config(_write(tmp_path, "traces: {settle: 3s}")).settings_hash != usual
    prices = "traces: {prices: {gpt-4o: {input: %s, output: 10}}}"
    priced = [load_config(_write(tmp_path, prices % price)).settings_hash for price in ("2.5", "3", "2.50")]
    assert priced[0] == priced[2]
    assert len({usual, *priced}) == 3


@of_all_parts
def test_the_example_is_accepted_and_fits_the_schema() -> None:
    config = load_config(EXAMPLE)
    assert list(config.exporters) == ["otlp"]
    schema = Draft202012Validator(settings_schema())
    assert [str(error) for error in schema.iter_errors(safe_load(EXAMPLE.read_text()))] == []


@of_all_parts
def test_what_the_example_has_in_comments_is_accepted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTLP_TOKEN", "PAGER_TOKEN", "TRACEGRADE_TOKEN"):
        monkeypatch.setenv(name, "s3cret-of-servers")
    config = load_config(_write(tmp_path, re.sub(r"(?m)^( +)# ", r"\1", EXAMPLE.read_text())))
    assert config.receivers.otlp.protocols.grpc is not None
    assert config.receivers.otlp.protocols.grpc.tls is not None
    assert config.receivers.otlp.protocols.grpc.auth is not None
    assert config.exporters["otlp"].headers["authorization"].get_secret_value() == "Bearer s3cret-of-servers"
    assert list(config.alerts.channels) == ["pager", "ops"]


OLD_NAMES = """\
alerts:
  receivers:
    pager: {webhook: {url: "https://pager.example/hook"}}
  routes:
    - {labels: {level: high}, receivers: [pager]}
    - {receivers: []}
"""


def test_receivers_of_alerts_are_read_as_channels_with_a_warning_that_names_the_new_key(tmp_path: Path) -> None:
    old = load_config(_write(tmp_path, OLD_NAMES))
    assert [warning.partition("config.yaml:")[2] for warning in old.warnings] == [
        "2:3: alerts.receivers: is now called 'channels'; the old name still works, please rename it",
        "5:31: alerts.routes[0].receivers: is now called 'channels'; the old name still works, please rename it",
        "6:8: alerts.routes[1].receivers: is now called 'channels'; the old name still works, please rename it",
    ]
    new = load_config(_write(tmp_path, OLD_NAMES.replace("receivers", "channels")))
    assert (new.alerts, new.warnings) == (old.alerts, ())
    assert [route.channels for route in new.alerts.routes] == [["pager"], []]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "alerts: {channels: {}, receivers: {}}",
            "1:24: alerts.receivers: is the old name of 'channels'",
        ),
        ("alerts: {receivers: {a: {webhook: {}}}}", "1:26: alerts.channels.a.webhook: key 'url' is missing"),
        ("alerts: {routes: [{receivers: [a]}]}", "1:32: alerts.routes[0].channels[0]: no channel 'a'; expected one of"),
    ],
    ids=["both", "a mistake below an old name", "a mistake in an old route"],
)
def test_mistakes_beside_old_names_have_their_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileError, match=re.escape(message)):
        load_config(_write(tmp_path, text))


@of_all_parts
def test_the_example_shows_the_defaults_except_for_data_rules_and_exporters() -> None:
    example = load_config(EXAMPLE)
    changed = [name for name in Config.model_fields if getattr(example, name) != getattr(Config(), name)]
    assert changed == ["data_dir", "rules", "exporters"]
    exporter = example.exporters["otlp"]
    assert exporter == ExporterSettings(endpoint=exporter.endpoint)


@of_all_parts
def test_the_example_names_every_section() -> None:
    assert set(safe_load(EXAMPLE.read_text())) == set(Config.model_fields)


def test_every_default_in_the_schema_fits_its_own_schema() -> None:
    schema = settings_schema()

    def check(part: Any) -> None:
        if isinstance(part, dict):
            if "default" in part:
                here = {**part, "$defs": schema["$defs"]}
                assert Draft202012Validator(here).is_valid(part["default"]), part
            for item in part.values():
                check(item)

    check(schema)


@pytest.mark.parametrize(
    ("text", "found"), [("0", "0"), ("-1", "-1"), ("many", "'many'"), ("65", "65"), ("true", "True")]
)
def test_a_number_of_judges_that_there_cannot_be_is_refused(tmp_path: Path, text: str, found: str) -> None:
    (mistake,) = _mistakes(tmp_path, f"judge: {{workers: {text}}}")
    expected = "expected a number of judges from 1 to 64, or auto (one for each core but one)"
    assert mistake == f"1:9: judge.workers: {expected}, found {found}"


@pytest.mark.parametrize(("there", "workers"), [(1, 1), (2, 1), (8, 7)])
def test_auto_is_a_judge_for_each_core_but_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: int, workers: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(there)), raising=False)
    config = load_config(_write(tmp_path, "judge: {workers: auto}"))
    assert config.judge.worker_count == workers
    assert not config.warnings


def test_more_judges_than_cores_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    config = load_config(_write(tmp_path, "judge: {workers: 3}"))
    assert config.judge.worker_count == 3
    assert config.warnings == (
        "judge.workers: 3 judges share 2 cores: more than one for each core are slower together",
    )


@pytest.mark.parametrize(
    ("settings", "warns"),
    [
        ("journal: {max_size_mib: 8}", True),
        ("journal: {max_size_mib: 16}", False),
        ("{journal: {max_size_mib: 8}, judge: {when_full: refuse}}", False),
    ],
)
def test_a_journal_too_small_for_fair_shares_is_warned_of(tmp_path: Path, settings: str, warns: bool) -> None:
    (tmp_path / "config.yaml").write_text(settings)
    found = load_config(tmp_path / "config.yaml").warnings
    said = (
        "journal.max_size_mib: 8 MiB fill faster than the judge can leave out who sends most, so that small senders "
        "lose as much as others; set it to 16 or more"
    )
    assert list(found) == [said] * warns
