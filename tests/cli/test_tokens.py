"""``tracegrade tokens``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from build import each
from tracegrade.access.tokens import digest_of, stored_tokens
from tracegrade.cli import main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["tokens", *arguments, "--data-dir", str(data)])


def test_a_new_token_is_shown_once_and_said_what_it_may(data: Path) -> None:
    made = run(data, "new", "checkout", "--role", "send", "--role", "read", "--tenant", "shop", "--expires", "90d")
    assert made.exit_code == 0
    secret = made.stdout.strip()
    [token] = stored_tokens(data / "tokens.json")
    assert digest_of(secret).hex() == token.secret_sha256
    assert "'checkout', shown this once: send, read; tenant shop; it expires 20" in made.stderr
    for output_format in ("table", "json"):
        listed = run(data, "list", "--format", output_format)
        assert "checkout" in listed.stdout
        assert secret not in listed.stdout
        assert token.secret_sha256 not in listed.stdout


def test_it_is_said_when_no_server_asks_for_tokens(data: Path, tmp_path: Path) -> None:
    assert "No server of these settings asks for tokens" in run(data, "new", "page", "--role", "read").stderr
    path = tmp_path / "config.yaml"
    path.write_text(f"data_dir: {data}\nweb: {{auth: {{}}}}\n")
    made = CliRunner().invoke(main, ["tokens", "new", "other", "--role", "read", "-c", str(path)])
    assert "No server" not in made.stderr


def test_json_has_what_a_program_needs(data: Path) -> None:
    made = json.loads(run(data, "new", "page", "--role", "read", "--format", "json").stdout)
    assert made["token"].startswith("tgr_")
    [listed] = map(json.loads, run(data, "list", "--format", "json").stdout.splitlines())
    assert listed == {key: value for key, value in made.items() if key != "token"}
    assert (listed["state"], listed["tenant"], listed["roles"]) == ("valid", None, ["read"])


def test_a_rotated_token_says_how_long_the_old_one_is_accepted(data: Path) -> None:
    first = run(data, "new", "page", "--role", "read").stdout
    rotated = run(data, "rotate", "page", "--grace", "2h")
    assert rotated.stdout != first
    assert "The old one is accepted for 2h, until 20" in rotated.stderr
    assert "valid, and the old one" in run(data, "list").stdout
    assert "The old one is not accepted any more." in run(data, "rotate", "page", "--grace", "0s").stderr


def test_a_revoked_token_is_listed_only_with_all(data: Path) -> None:
    run(data, "new", "page", "--role", "read")
    assert ": revoked" in run(data, "revoke", "page").stdout
    assert "No tokens; 'tracegrade tokens new NAME --role read' makes one." in run(data, "list").stdout
    assert "revoked" in run(data, "list", "--all").stdout


@each(
    ("arguments", "told"),
    [
        (["new", "page"], "Missing option '--role'"),
        (["new", "page", "--role", "write"], "'write' is not one of 'send', 'read',"),
        (["new", "", "--role", "read"], "expected a name of 1 to 100 printable characters, found ''"),
        (["new", "a\x1bb", "--role", "read"], "expected a name of 1 to 100 printable characters"),
        (["new", "page", "--role", "read", "--tenant", "a b"], "expected a tenant of 1 to 64 letters (a to z"),
        (["new", "page", "--role", "read", "--expires", "soon"], "expected a duration such as"),
        (["new", "page", "--role", "read", "--expires", "0s"], "expected a time after now, found 0s"),
        (["new", "there", "--role", "read"], "there is a token 'there' already; rotate it"),
        (["rotate", "none"], "the token 'none' does not exist"),
        (["revoke", "none"], "the token 'none' does not exist"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(data: Path, arguments: list[str], told: str) -> None:
    run(data, "new", "there", "--role", "read")
    result = run(data, *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert len(stored_tokens(data / "tokens.json")) == 1


def test_what_is_done_with_tokens_is_in_the_access_log(data: Path) -> None:
    secret = run(data, "new", "page", "--role", "read").stdout.strip()
    run(data, "revoke", "page")
    [path] = (data / "access").glob("access-*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["operation"], line["right"], line["named"]["token"]) for line in lines] == [
        ("tracegrade tokens new", "admin", "page"),
        ("tracegrade tokens revoke", "admin", "page"),
    ]
    assert all(line["name"].startswith("command line: ") for line in lines)
    assert secret not in path.read_text()


def test_nothing_is_done_that_cannot_be_noted(data: Path) -> None:
    data.mkdir()
    (data / "access").write_text("in the way")
    result = run(data, "new", "page", "--role", "read")
    assert result.exit_code == 2
    assert "the access log cannot be written" in result.stderr
    assert not (data / "tokens.json").exists()
