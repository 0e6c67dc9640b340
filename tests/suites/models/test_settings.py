from pathlib import Path

import pytest

from build import each
from tracegrade.document.problem import FileError, UnsetError
from tracegrade.model.errors import WrongValue
from tracegrade.suites.models.settings import chosen_models, load_models, to_ask

GOOD = """\
providers:
  cloud:
    base_url: https://api.example.com/v1/
    api_key: ${env:KEY}
    headers: {x-team: agents}
    models:
      large: {price: {input: 1, output: 2}}
      both: {}
  local:
    base_url: http://127.0.0.1:8000/v1
    models: {both: {}, "org/small": {sends_temperature: false}}
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("KEY", "sk-very-secret")
    monkeypatch.setenv("DIGITS", "1234567890")

    def write(text: str) -> Path:
        path = tmp_path / "models.yaml"
        path.write_text(text)
        return path

    return write


def test_models_are_named_by_provider_and_id(write) -> None:  # type: ignore[no-untyped-def]
    known = load_models(write(GOOD))
    assert [target.key for target in known] == ["cloud::large", "cloud::both", "local::both", "local::org/small"]
    assert known[0].provider.base_url == "https://api.example.com/v1"
    assert [target.key for target in chosen_models(known, ["org/small", "large", "cloud::large"])] == [
        "local::org/small",
        "cloud::large",
    ]
    with pytest.raises(WrongValue, match="several providers have 'both'; write cloud::both or local::both"):
        chosen_models(known, ["both"])
    with pytest.raises(WrongValue, match="no model 'cloud::larg' in the file of models; did you mean 'cloud::large'"):
        chosen_models(known, ["cloud::larg"])


@each(
    ("old", "new", "line"),
    [
        ("api_key: ${env:KEY}", "api_key: ${env:NOT_SET}", 4),
        ("{x-team: agents}", '{x-team: "Team ${env:NOT_SET}"}', 5),
        ("headers: {x-team: agents}", "timeout: ${env:NOT_SET}", 5),
        ("https://api.example.com/v1/", "${env:NOT_SET}", 3),
        ("https://api.example.com/v1/", "https://${env:NOT_SET}/v1", 3),
    ],
)
def test_only_models_whose_provider_names_an_unset_variable_cannot_be_asked(  # type: ignore[no-untyped-def]
    write, old: str, new: str, line: int
) -> None:
    known = load_models(write(GOOD.replace(old, new, 1)))
    assert [target.key for target in known] == ["cloud::large", "cloud::both", "local::both", "local::org/small"]
    assert known[0].price is not None
    assert to_ask(known[2:]) == known[2:]
    with pytest.raises(UnsetError) as refused:
        to_ask(known)
    assert f"models.yaml:{line}:" in str(refused.value)
    assert "environment variable NOT_SET is not set" in str(refused.value)
    with pytest.raises(UnsetError):
        _ = known[0].provider.base_url


@each(
    ("old", "new", "line", "message"),
    [
        ("https://api.example.com/v1/", "api.example.com", 3, "expected http://HOST/PATH or https://HOST/PATH"),
        ("https://api.example.com/v1/", "https://u:sk-very-secret@h/", 3, "expected http://HOST/PATH"),
        ("https://api.example.com/v1/", "https://h/v1?key=1", 3, "expected an address without"),
        ("api_key: ${env:KEY}", "api_key: ${env:DIGITS}", 4, "expected a text, found something else, which is not"),
        ("api_key: ${env:KEY}", "api_key: ''", 4, "expected printable ASCII, found something else"),
        ("api_key: ${env:KEY}", 'api_key: "sk-very-secret\\n"', 4, "expected printable ASCII, found something else"),
        ("large: {price: {input: 1, output: 2}}", "large: {price: '${env:NOT_SET}'}", 7, "NOT_SET is not set"),
        ("{x-team: agents}", "{Authorization: sk-very-secret}", 5, "write the key as api_key"),
        ("{x-team: agents}", "{x-team: 1234567890}", 5, "found something else, which is not shown"),
        ("headers: {x-team: agents}", "extra_body: {messages: []}", 5, "'messages' is set by the run itself"),
        ("headers: {x-team: agents}", "at_a_tim: 3", 5, "unknown key 'at_a_tim'; did you mean 'at_a_time'"),
        ("headers: {x-team: agents}", "a_minute: 0", 5, "expected a number of at least 1, found 0"),
        ("large: {price: {input: 1, output: 2}}", "large: {price: {input: 1}}", 7, "key 'output' is missing"),
        ("cloud:", '"cl oud":', 2, "expected letters, digits"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_no_secret_is_shown(  # type: ignore[no-untyped-def]
    write, old: str, new: str, line: int, message: str
) -> None:
    with pytest.raises(FileError) as refused:
        load_models(write(GOOD.replace(old, new, 1)))
    said = str(refused.value)
    assert f"models.yaml:{line}:" in said
    assert message in said
    assert "sk-very-secret" not in said
    assert "1234567890" not in said


def test_a_key_is_in_no_text_about_the_settings(write) -> None:  # type: ignore[no-untyped-def]
    target = load_models(write(GOOD))[0]
    assert "sk-very-secret" not in repr(target)
    assert "sk-very-secret" not in target.provider.model_dump_json()
    assert target.provider.without_secrets("key sk-very-secret is wrong") == "key ********** is wrong"
