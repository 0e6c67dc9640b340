"""``suite import --mcp`` as a user calls it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from build import each
from suites.build.scripted_mcp import TOOL, Script, scripted
from tracegrade.cli import main
from tracegrade.rule.load import load_rules

SECRET = "sk-1234567890abcdef"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def settings(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def test_a_suite_is_written_its_cases_added_and_a_rule_made_of_it(tmp_path: Path) -> None:
    file = tmp_path / "weather.json"
    with scripted(Script()) as base:
        made = run("suite", "import", "--mcp", f"{base}/mcp", "--allow-host", "127.0.0.1", "-o", file)
    assert made.exit_code == 0, made.output
    assert made.stdout == (
        f"wrote {file}: 1 tool, no cases yet\n"
        'Next, add cases to "test_cases", such as '
        '{"prompt": "...", "expected_tool": "get_weather", "expected_params": {"city": "..."}}\n'
    )
    suite = json.loads(file.read_text())
    assert suite["name"] == "weather"
    assert suite["tools"][0]["function"] == {
        "name": "get_weather",
        "description": TOOL["description"],
        "parameters": TOOL["inputSchema"],
    }
    early = run("rules", "import", file, "--in", tmp_path)
    assert (early.exit_code, "a suite of tools alone has none to judge" in early.stderr) == (2, True)

    example = json.loads(made.stdout.partition("such as ")[2])
    file.write_text(json.dumps(suite | {"test_cases": [example | {"prompt": "Weather in Paris?"}]}))
    assert run("rules", "import", file, "--in", tmp_path).exit_code == 0
    assert [rule.id for rule in load_rules([tmp_path]).rules] == ["weather"]


def test_a_dash_gives_the_suite_alone_on_standard_output() -> None:
    script = Script()
    script.results["tools/list"] = [
        {"tools": [TOOL, TOOL | {"name": "b", "inputSchema": {"type": "object", "$ref": "https://example.org/x"}}]}
    ]
    with scripted(script) as base:
        made = run(
            "suite", "import", "--mcp", f"{base}/mcp", "--allow-host", "127.0.0.1", "--name", "Mine", "--to", "-"
        )
    assert json.loads(made.stdout)["name"] == "Mine"
    assert made.stderr.startswith("Note: tool 'b' is left out: no JSON Schema: ")


def test_a_folder_gets_a_file_named_as_the_suite(tmp_path: Path) -> None:
    with scripted(Script()) as base:
        asked = ["suite", "import", "--mcp", f"{base}/mcp", "--allow-host", "127.0.0.1", "--name", "My Shop"]
        made = run(*asked, "--to", tmp_path)
        assert made.stdout.startswith(f"wrote {tmp_path / 'my-shop.json'}: 1 tool, no cases yet\n")
        again = run(*asked, "--to", tmp_path)
    assert again.stderr.startswith(f"Error: {tmp_path / 'my-shop.json'}: exists already")
    assert json.loads((tmp_path / "my-shop.json").read_text())["name"] == "My Shop"


def test_a_file_with_cases_is_not_overwritten_unasked(tmp_path: Path) -> None:
    file = tmp_path / "weather.json"
    file.write_text("mine")
    with scripted(Script()) as base:
        asked = ["suite", "import", "--mcp", f"{base}/mcp", "--allow-host", "127.0.0.1", "-o", file]
        kept = run(*asked)
        assert (kept.exit_code, file.read_text()) == (2, "mine")
        assert kept.stderr == f"Error: {file}: exists already; --replace overwrites it, with the cases that it has\n"
        assert run(*asked, "--replace").exit_code == 0
    assert json.loads(file.read_text())["test_cases"] == []
    nowhere = tmp_path / "none" / "x.json"
    with scripted(Script()) as base:
        lost = run("suite", "import", "--mcp", f"{base}/mcp", "--allow-host", "127.0.0.1", "-o", nowhere)
    assert lost.stderr == f"Error: {nowhere}: cannot be written: No such file or directory\n"


def test_the_settings_name_hosts_and_own_listeners(tmp_path: Path) -> None:
    with scripted(Script()) as base:
        port = base.rpartition(":")[2]
        asked = ["suite", "import", "--mcp", f"{base}/mcp", "--to", "-", "-c"]
        allowed = settings(tmp_path, f"suites: {{mcp_hosts: ['127.0.0.1:{port}']}}")
        assert run(*asked, allowed).exit_code == 0
        other = run(*asked, settings(tmp_path, "suites: {mcp_hosts: ['127.0.0.1:1']}"))
        assert "127.0.0.1 is a loopback address, which is asked only if its host is allowed" in other.stderr
        own = settings(tmp_path, f"web: {{endpoint: 'localhost:{port}'}}\nsuites: {{mcp_hosts: [127.0.0.1]}}")
        assert f"127.0.0.1 is this TraceGrade itself (port {port}), which is never asked" in run(*asked, own).stderr


def test_a_wrong_host_in_the_settings_is_refused_where_it_stands(tmp_path: Path) -> None:
    path = settings(tmp_path, "suites:\n  mcp_hosts: [localhost, 'http://h/']")
    checked = run("config", "check", path)
    assert checked.exit_code == 2
    assert f"{path}:2:26: suites.mcp_hosts[1]: expected HOST or HOST:PORT, found 'http://h/'" in checked.stderr


def test_a_header_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_KEY", SECRET)
    script = Script()
    with scripted(script) as base:
        asked = ["suite", "import", "--mcp", f"{base}/mcp", "--allow-host", "127.0.0.1", "--to", "-"]
        made = run(*asked, "--header", "Authorization: Bearer ${env:MCP_KEY}", "--header", "X-Team: a:b")
        script.answers["POST /mcp"] = lambda handler: handler.say(401, SECRET)
        refused = run(*asked, "--header", "Authorization: Bearer ${env:MCP_KEY}")
    assert script.headers("initialize")["authorization"] == f"Bearer {SECRET}"
    assert script.headers("initialize")["x-team"] == "a:b"
    assert refused.stderr.endswith("answers 401 Unauthorized; the key that was sent is not accepted\n")
    assert SECRET not in made.output + refused.output


@each(
    ("header", "said"),
    [
        (SECRET, "--header: expected 'NAME: VALUE' (the 1. one, not shown: it may be a key)"),
        (f"a b: {SECRET}", "--header: expected 'NAME: VALUE' (the 1. one, not shown: it may be a key)"),
        ("host: elsewhere", "--header: host is set by TraceGrade itself; leave it out"),
        ("X: ${env:MCP_UNSET}", "--header X: environment variable MCP_UNSET is not set"),
        (f"X: {SECRET}\r\nY: z", "--header X: expected printable ASCII, found something else, which is not shown"),
        ("X: ${env:MCP_EMPTY}", "--header X: expected printable ASCII, found something else, which is not shown"),
    ],
)
def test_a_wrong_header_is_refused_without_its_value(header: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_EMPTY", "")
    refused = run("suite", "import", "--mcp", "http://127.0.0.1:9/", "--header", header)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert SECRET not in refused.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mcp", "weather.json"], "--mcp: expected http://..., https://... or stdio:COMMAND, found 'weather.json'"),
        (["--mcp", "http://h/", "--allow-host", "http://h/"], "--allow-host: expected HOST or HOST:PORT, found"),
        ([], "expected a file, or --mcp ADDRESS, and not both"),
        (["a.json", "--mcp", "http://h/"], "expected a file, or --mcp ADDRESS, and not both"),
        (["a.json", "--to", "b.json"], "--to writes what a server lists; FILE is stored"),
        (["a.json", "--replace"], "--replace: expected the stored suite that FILE replaces, by its id or its name"),
    ],
)
def test_wrong_usage_is_said(arguments: list[str], said: str) -> None:
    refused = run("suite", "import", *arguments)
    assert refused.exit_code == 2
    assert said in refused.stderr
