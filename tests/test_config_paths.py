"""Paths in a settings file are relative to it; what names an unset variable is needed only by what reads it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from build.without_parts import of_all_parts
from tracegrade.config import Config, load_config
from tracegrade.document.problem import FileError

SETTINGS = """\
data_dir: ${env:DATA:-data}
rules: {paths: [rules, builtin:default, /etc/rules], semantic_model: model}
store: {url: "sqlite:///results/it.db?timeout=5"}
parquet: {url: ../parquet}
suites: {models: models.yaml}
access: {tokens_file: ./tokens.json}
redaction: {names_file: names, key_file: key, presidio: {model: models/names}}
web: {tls: {cert_file: tls/crt, key_file: tls/key, client_ca_file: tls/ca}, auth: {token_file: tokens}}
exporters: {otlp: {endpoint: "a:4317", tls: {ca_file: tls/ca, cert_file: tls/crt, key_file: tls/key}}}
"""
KAFKA = """\
journal: {kafka: {brokers: ["a:9092"], client: {ssl.ca.location: tls/ca, ssl.key.location: probe, client.id: tls/ca}}}
store: {url: "postgresql+psycopg://me@db/it?sslmode=verify-full&sslrootcert=tls/ca&sslcert=/c"}
redaction: {presidio: {model: en_core_web_sm}}
"""


def _written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def _values(value: Any) -> Iterator[str]:
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _values(item)
    if isinstance(value, str):
        yield value


@of_all_parts
def test_every_path_of_the_file_is_relative_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "from/environment")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    here = tmp_path / "settings"
    _written(here, SETTINGS)
    (here / "tls").mkdir()
    for name in ("ca", "crt", "key"):
        (here / "tls" / name).touch()
    config = load_config(Path("../settings/config.yaml"))
    shown = config.model_dump(mode="json")
    tls = {"cert_file": f"{here}/tls/crt", "key_file": f"{here}/tls/key"}
    assert shown["data_dir"] == f"{here}/from/environment"
    assert shown["rules"]["paths"] == [f"{here}/rules", "builtin:default", "/etc/rules"]
    assert shown["rules"]["semantic_model"] == f"{here}/model"
    assert shown["store"]["url"] == f"sqlite:///{here}/results/it.db?timeout=5"
    assert shown["parquet"]["url"] == f"{tmp_path}/parquet"
    assert shown["suites"]["models"] == f"{here}/models.yaml"
    assert shown["access"]["tokens_file"] == f"{here}/tokens.json"
    assert shown["redaction"]["names_file"] == f"{here}/names"
    assert shown["redaction"]["key_file"] == f"{here}/key"
    assert shown["redaction"]["presidio"]["model"] == f"{here}/models/names"
    assert shown["web"]["tls"] == {**tls, "client_ca_file": f"{here}/tls/ca"}
    assert shown["web"]["auth"]["token_file"] == f"{here}/tokens"
    assert shown["exporters"]["otlp"]["tls"] == {
        "insecure": False,
        "ca_file": f"{here}/tls/ca",
        "server_name_override": None,
        **tls,
    }

    config = load_config(_written(here, KAFKA))
    assert config.journal.kafka is not None
    assert config.journal.kafka.client == {
        "ssl.ca.location": f"{here}/tls/ca",
        "ssl.key.location": "probe",
        "client.id": "tls/ca",
    }
    assert config.store.url == (
        f"postgresql+psycopg://me@db/it?sslmode=verify-full&sslrootcert={here}/tls/ca&sslcert=/c"
    )
    assert config.redaction is not None
    assert config.redaction.presidio is not None
    assert config.redaction.presidio.model == "en_core_web_sm"


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    def models(annotation: Any) -> Iterator[type[BaseModel]]:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        for inner in get_args(annotation):
            yield from models(inner)

    for name, field in model.model_fields.items():
        yield f"{model.__name__}.{name}", field
        for inner in models(field.annotation):
            yield from _fields(inner)


def test_every_setting_that_is_called_a_path_is_read_as_one() -> None:
    names = ("_file", "_dir", "folder", "paths")
    found = {place: field for place, field in _fields(Config) if place.endswith(names)}
    assert len(found) > 8
    wrong = [place for place, field in found.items() if "read_as_path" not in repr((field.metadata, field.annotation))]
    assert wrong == []


def test_flags_and_defaults_are_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _written(tmp_path / "settings", "data_dir: data")
    monkeypatch.chdir(tmp_path)
    assert load_config(path, data_dir="flag").data_path == tmp_path / "flag"
    assert load_config(None).data_path == tmp_path / "tracegrade-data"


def test_data_at_the_place_of_before_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "data_dir: data\nstore: {url: 'sqlite:///data/it.db'}\naccess: {tokens_file: tokens.json}\n"
    path = _written(tmp_path / "settings", text)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    load_config(path)  # an empty folder, or one of somebody else, is no data
    (tmp_path / "data" / "instance_id").touch()
    (tmp_path / "data" / "it.db").touch()
    (tmp_path / "tokens.json").touch()
    with pytest.raises(FileError) as caught:
        load_config(path, allow_unset=True)
    here = tmp_path / "settings"
    assert [(problem.line, problem.message.split(":")[0]) for problem in caught.value.problems] == [
        (1, "data_dir"),
        (2, "store.url"),
        (3, "access.tokens_file"),
    ]
    places = [(here / "data", tmp_path / "data"), (here / "data/it.db", tmp_path / "data/it.db")]
    places.append((here / "tokens.json", tmp_path / "tokens.json"))
    for problem, (now, before) in zip(caught.value.problems, places, strict=True):
        assert f"nothing at {now}, " in problem.message
        assert f"something at {before}, " in problem.message
    (here / "data").mkdir()
    for name in ("data/instance_id", "data/it.db", "tokens.json"):
        (here / name).touch()
    load_config(path)


SECRETS = """\
data_dir: ${env:NO_DATA}
redaction: {action: hash, key: "${env:NO_KEY}"}
exporters: {otlp: {endpoint: "a:4317", headers: {authorization: "${env:NO_TOKEN}"}, tls: {ca_file: nosuch}}}
access: {user_header: x-user, trusted_proxies: [10.0.0.7], user_roles: [read]}
web: {auth: {tokens: ["${env:NO_TOKEN}"]}}
alerts:
  external_url: https://tracegrade.example
  receivers: {pager: {webhook: {url: "${env:NO_HOOK}"}}}
  routes: [{receivers: [pager]}]
"""


def test_a_variable_is_needed_by_what_reads_it_alone(tmp_path: Path) -> None:
    path = _written(tmp_path, SECRETS)
    with pytest.raises(FileError) as all_needed:
        load_config(path)
    names = ["NO_DATA", "NO_KEY", "NO_TOKEN", "NO_TOKEN", "NO_HOOK"]
    assert [(problem.line, problem.message.split()[2]) for problem in all_needed.value.problems] == list(
        zip([1, 2, 3, 5, 8], names, strict=True)
    )
    with pytest.raises(FileError, match=":1:11: environment variable NO_DATA is not set"):
        load_config(path, allow_unset=True).data_path  # noqa: B018
    config = load_config(path, data_dir=str(tmp_path / "data"), allow_unset=True)
    assert config.alerts.links.page == "https://tracegrade.example"
    assert config.store_url == f"sqlite:///{tmp_path}/data/tracegrade.db"
    with pytest.raises(FileError, match=":2:32: environment variable NO_KEY is not set"):
        bool(config.redaction)
    for lacks in (lambda: config.redaction.places, lambda: list(config.exporters), lambda: config.alerts.channels["x"]):  # type: ignore[union-attr]
        with pytest.raises(FileError, match="is not set"):
            lacks()
