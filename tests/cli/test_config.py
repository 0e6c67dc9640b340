import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from jsonschema_rs import Draft202012Validator
from yaml import safe_load

from build import each
from build.without_parts import of_all_parts
from tracegrade.cli import main
from tracegrade.rule.builtin import DEFAULT_RULES

EXAMPLE = Path(__file__).parents[2] / "deploy" / "config.example.yaml"

SECRETS = """\
exporters:
  otlp: {endpoint: "collector:4317", headers: {authorization: Bearer tip-top-secret}}
alerts:
  channels:
    pager: {webhook: {url: "https://pager.example/tip-top-secret", headers: {Authorization: tip-top-secret}}}
    alertmanager: {alertmanager: {url: "http://ops:tip-top-secret@alertmanager:9093"}}
    duty: {pagerduty: {routing_key: tip-top-secret, url: "https://tip-top-secret@duty.example"}}
  external_url: "https://ops:tip-top-secret@page.example"
  trace_url: "https://jaeger.example/{trace_id}?api_key=tip-top-secret&lang=en"
store: {url: "postgresql+psycopg://grader:tip-top-secret@db/results?sslmode=require&sslpassword=tip-top-secret"}
"""
MISTAKES_WITH_SECRETS = [
    'exporters: {otlp: {endpoint: "http://ops:tip-top-secret@collector:4317"}}',
    'exporters: {otlp: {endpoint: "ops:tip-top-secret@collector:4317"}}',
    'exporters: {otlp: {protocol: http, endpoint: "http://ops:tip-top-secret@collector:4318"}}',
    'exporters: {otlp: {protocol: http, endpoint: "https://collector:4318/?token=tip-top-secret"}}',
    'alerts: {channels: {a: {webhook: {url: "ftp://pager.example/tip-top-secret"}}}}',
    'alerts: {channels: {a: {slack: {url: "tip-top-secret"}}}}',
    'alerts: {channels: {a: {alertmanager: {url: "ftp://ops:tip-top-secret@alertmanager:9093"}}}}',
]


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRACEGRADE_CONFIG", "TRACEGRADE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments])


@of_all_parts
def test_check_says_that_the_example_is_fine() -> None:
    result = _run("check", str(EXAMPLE))
    assert (result.exit_code, result.output) == (0, f"{EXAMPLE}: nothing wrong, 3 rules, 1 exporter\n")


def test_check_without_a_file_checks_the_defaults() -> None:
    assert _run("check").output == f"defaults: nothing wrong, {len(DEFAULT_RULES)} rules, 0 exporters\n"


@of_all_parts
def test_check_takes_the_file_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEGRADE_CONFIG", str(EXAMPLE))
    assert _run("check").output.startswith(f"{EXAMPLE}: nothing wrong")


def test_check_prints_every_mistake_and_exits_2(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("journal: {synk: always}\ntraces: {settle: 1}\n")
    result = _run("check", str(path))
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"Error: {path}:1:11: journal.synk: unknown key 'synk'; did you mean 'sync'?",
        f"{path}:2:10: traces.settle: expected a duration such as '30s', '500ms' or '1h30m', found 1",
    ]


@each("settings", MISTAKES_WITH_SECRETS)
def test_a_mistake_is_shown_without_the_secret_it_holds(settings: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(settings)
    result = _run("check", str(path))
    assert (result.exit_code, str(path) in result.output) == (2, True)
    assert "tip-top-secret" not in result.output


def test_check_reads_the_rules_too(tmp_path: Path) -> None:
    (tmp_path / "wrong.rule.yaml").write_text("id: wrong\n")
    path = tmp_path / "config.yaml"
    path.write_text(f"rules: {{paths: ['{tmp_path}/wrong.rule.yaml']}}\n")
    result = _run("check", str(path))
    assert result.exit_code == 2
    assert f"{tmp_path}/wrong.rule.yaml:1:1: key 'evaluate' is missing" in result.stderr


def test_check_warns_of_notifications_without_links(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    channels = 'alerts:\n  channels: {a: {webhook: {url: "https://pager.example"}}}\n'
    for written, warned in ((channels, True), (f"{channels}  external_url: https://page.example\n", False)):
        path.write_text(written)
        result = _run("check", str(path))
        assert ("alerts.external_url is not set" in result.stderr, result.exit_code) == (warned, 0), written


def test_check_warns_where_no_token_lets_anybody_in(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    receivers = "receivers: {otlp: {protocols: {http: {auth: {}}}}}"
    path.write_text(f"data_dir: {tmp_path}\nweb: {{auth: {{}}}}\n{receivers}\n")
    warned = _run("check", str(path))
    both = "receivers.otlp.protocols.http.auth, web.auth: no token lets anybody in yet; 'tracegrade tokens new"
    assert (warned.exit_code, both in warned.stderr, warned.stderr.count("no token")) == (0, True, 1)
    made = CliRunner().invoke(main, ["tokens", "new", "page", "--role", "read", "-c", str(path)])
    assert made.exit_code == 0
    assert "no token" not in _run("check", str(path)).stderr


@each(
    ("settings", "told"),
    [
        (
            "receivers: {otlp: {protocols: {grpc: {auth: {token_file: FILE}}}}}",
            "protocols.grpc.auth.token_file: 'FILE': ",
        ),
        ("receivers: {otlp: {protocols: {http: {tls: {cert_file: FILE, key_file: FILE}}}}}", "protocols.http.tls: "),
        ("web: {auth: {token_file: FILE}}", "web.auth.token_file: 'FILE': "),
        ("web: {auth: {tokens: [s3cr]}}", "web.auth.tokens[0]: expected a token of at least 16 characters, which "),
        ("access: {tokens_file: FILE}", "FILE: the file: Invalid JSON"),
        ("exporters: {otlp: {endpoint: 'a:1', tls: {ca_file: FILE}}}", "exporter to a:1: tls: expected PEM files"),
    ],
)
def test_check_reads_certificates_and_tokens_too(tmp_path: Path, settings: str, told: str) -> None:
    file, path = tmp_path / "file", tmp_path / "config.yaml"
    file.write_text("two words\n")
    path.write_text(settings.replace("FILE", str(file)))
    result = _run("check", str(path))
    assert result.exit_code == 2
    assert told.replace("FILE", str(file)) in result.stderr
    assert "s3cr" not in result.stderr


@pytest.mark.parametrize("setting", ["names_file", "key_file"])
def test_check_reads_the_files_of_redaction_too(tmp_path: Path, setting: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"redaction: {{{setting}: {tmp_path / 'none'}}}\n")
    result = _run("check", str(path))
    assert result.exit_code == 2
    assert f"redaction.{setting}: cannot read '{tmp_path / 'none'}': No such file or directory" in result.stderr


def test_show_masks_secrets(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(SECRETS)
    result = _run("show", str(path))
    assert "tip-top-secret" not in result.output
    shown = safe_load(result.output)
    assert shown["exporters"]["otlp"]["headers"] == {"authorization": "**********"}
    assert shown["alerts"]["channels"]["pager"]["webhook"]["headers"] == {"Authorization": "**********"}
    assert shown["store"]["url"] == (
        "postgresql+psycopg://grader:**********@db/results?sslmode=require&sslpassword=**********"
    )
    assert (
        shown["alerts"]["channels"]["alertmanager"]["alertmanager"]["url"] == "http://ops:**********@alertmanager:9093"
    )
    assert shown["alerts"]["trace_url"] == "https://jaeger.example/{trace_id}?api_key=**********&lang=en"


def test_the_environment_wins_over_the_file_and_the_flag_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("data_dir: /from/file\n")
    assert safe_load(_run("show", str(path)).output)["data_dir"] == "/from/file"
    monkeypatch.setenv("TRACEGRADE_DATA_DIR", "/from/environment")
    assert safe_load(_run("show", str(path)).output)["data_dir"] == "/from/environment"
    assert safe_load(_run("show", str(path), "--data-dir", "/from/flag").output)["data_dir"] == "/from/flag"


@of_all_parts
def test_what_show_prints_without_secrets_is_a_settings_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(_run("show", str(EXAMPLE)).output)
    assert _run("show", str(path)).output == _run("show", str(EXAMPLE)).output


@of_all_parts
def test_schema_is_a_json_schema_that_the_example_fits() -> None:
    schema = json.loads(_run("schema").output)
    Draft202012Validator(schema).validate(safe_load(EXAMPLE.read_text()))
    assert schema["$defs"]["TracesSettings"]["properties"]["settle"]["default"] == "2s"


def test_parquet_files_without_the_extra_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.deliver.parquet.storage.find_spec", lambda name: None)
    path = tmp_path / "config.yaml"
    path.write_text(f"data_dir: {tmp_path}/data\nparquet: {{url: {tmp_path}/parquet}}")
    for command in (["config", "check", str(path)], ["serve", "-c", str(path)]):
        refused = CliRunner().invoke(main, command)
        assert refused.exit_code == 2
        *_, error = refused.stderr.splitlines()
        assert error == (
            "Error: parquet needs an extra: pip install 'tracegrade[parquet]', or leave parquet out of the settings"
        )
    assert not (tmp_path / "parquet").exists()
