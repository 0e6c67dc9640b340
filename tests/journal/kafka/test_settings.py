import builtins
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
from pydantic import ValidationError

from build import each
from tracegrade.config import Config, load_config
from tracegrade.document.problem import FileError
from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.client import check_client, client_config
from tracegrade.journal.kafka.settings import KafkaSettings

STORE = "store: {url: postgresql+psycopg://localhost/tracegrade}\n"


def _settings(**more: Any) -> KafkaSettings:
    return KafkaSettings.model_validate({"brokers": ["127.0.0.1:9092"], **more})


def _load(folder: Path, text: str) -> Config:
    path = folder / "config.yaml"
    path.write_text(text)
    return load_config(path)


def test_brokers_are_all_that_must_be_named(tmp_path: Path) -> None:
    kafka = _load(tmp_path, STORE + "journal: {kafka: {brokers: [kafka-1:9092, kafka-2:9092]}}\n").journal.kafka
    assert kafka is not None
    assert (kafka.traces_topic, kafka.logs_topic, kafka.metrics_topic) == ("otlp_spans", "otlp_logs", None)
    assert (kafka.group, kafka.clock_skew) == ("tracegrade-judge", 2.0)


def test_without_the_section_the_journal_is_on_disk() -> None:
    assert Config().journal.kafka is None


MISTAKES = [
    ({"brokers": []}, "should have at least 1 item"),
    ({"brokers": ["kafka"]}, "expected host:port, found 'kafka'; Kafka usually listens on 9092"),
    ({"brokers": ["kafka:0"]}, "expected host:port, found 'kafka:0'"),
    ({"brokers": ["a:9092,b:9092"]}, "expected host:port, found 'a:9092,b:9092'"),
    ({"traces_topic": "my spans"}, "expected a topic's name of letters, digits, '.', '_' and '-', found 'my spans'"),
    ({"logs_topic": "otlp_spans"}, "'otlp_spans' is named for two signals; give each its own topic"),
    ({"client": {"group.id": "x"}}, "'group.id' cannot be set here: it is journal.kafka.group; remove it"),
    (
        {"client": {"transactional.id": "x"}},
        "'transactional.id' cannot be set here: each message is confirmed by itself",
    ),
    ({"client": {"acks": 1}}, "'acks' cannot be set here: every answer waits for all in-sync replicas; remove it"),
    ({"client": {"Security Protocol": "ssl"}}, "expected a setting of librdkafka such as 'security.protocol'"),
    ({"client": {"group.protocol": "share"}}, "group.protocol: expected classic or consumer, found 'share'"),
    (
        {"client": {"group.protocol": "consumer"}, "instance_id": "judge-a"},
        "instance_id does not go with 'group.protocol: consumer'",
    ),
]


@each(("wrong", "said"), MISTAKES)
def test_a_mistake_is_told_in_one_sentence(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _settings(**wrong)
    (error,) = caught.value.errors()
    assert said in error["msg"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            STORE + "journal: {sync: always, max_size_mib: 100, kafka: {brokers: [kafka:9092]}}\n",
            "journal: max_size_mib, sync are for a journal on this machine's disk, but kafka makes Kafka the journal; "
            "remove one, and set size and age at the topics",
        ),
        (
            "journal: {kafka: {brokers: [kafka:9092]}}\n",
            "store.url: journal.kafka needs a store that all judges share; "
            "write postgresql+psycopg://USER:PASSWORD@HOST/DATABASE",
        ),
        (
            "store: {url: 'sqlite:///here.db'}\njournal: {kafka: {brokers: [kafka:9092]}}\n",
            "config.yaml:1:9: store.url: journal.kafka needs a store that all judges share",
        ),
        (
            STORE + "journal: {kafka: {brokers: [kafka:9092], topic: spans}}\n",
            "journal.kafka.topic: unknown key 'topic'",
        ),
        (STORE + "journal: {kafka: {}}\n", "journal.kafka: key 'brokers' is missing"),
    ],
)
def test_what_does_not_go_together_stops_the_start(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FileError) as caught:
        _load(tmp_path, text)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_secrets_are_not_shown() -> None:
    client = {"sasl.username": "judge", "sasl.password": "hunter2", "ssl.key.pem": "KEY"}
    shown = _settings(client=client).model_dump(mode="json")["client"]
    assert shown == {"sasl.username": "judge", "sasl.password": "**********", "ssl.key.pem": "**********"}


def test_members_are_named_after_the_instance_the_worker_and_what_they_read() -> None:
    named = _settings(instance_id="a").member_id(2, ["spans", "logs"])
    assert named is not None
    assert named.startswith("a-2-")
    assert _settings(instance_id="a").member_id(2, ["logs", "spans"]) == named
    assert _settings(instance_id="a").member_id(2, ["logs", "spans", "metrics"]) != named
    assert str(_settings().member_id(0, ["spans"])).startswith(f"{gethostname()}-0-")
    assert _settings(client={"group.protocol": "consumer"}).member_id(0, ["spans"]) is None


def test_clients_are_named_after_what_they_do_and_their_instance() -> None:
    settings = _settings()
    assert client_config(settings, "ask")["client.id"] == "tracegrade-ask"
    assert client_config(settings.of_instance("5b8e9d3c"), "judge-0")["client.id"] == "tracegrade-judge-0-5b8e9d3c"


def test_what_a_client_must_do_wins_over_what_is_passed_through() -> None:
    settings = _settings(client={"linger.ms": 1, "client.id": "mine"})
    config = client_config(settings, "receive", {"linger.ms": 5, "compression.type": "lz4"}, {"acks": "all"})
    assert (config["linger.ms"], config["compression.type"], config["client.id"]) == (1, "lz4", "mine")
    assert (config["bootstrap.servers"], config["acks"]) == ("127.0.0.1:9092", "all")


@each(
    ("client", "said"),
    [
        ({"sasl.user": "x"}, 'No such configuration property: "sasl.user"'),
        ({"linger.ms": "soon"}, "Invalid value"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere"}, "ssl.ca.location failed"),
    ],
)
def test_what_the_library_does_not_take_is_refused(client: dict[str, Any], said: str) -> None:
    with pytest.raises(KafkaUnfit, match=r"^journal\.kafka\.client: ") as caught:
        check_client(_settings(client=client))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_of_consumers_and_of_producers_pass() -> None:
    check_client(_settings(client={"fetch.max.bytes": 5_000_000, "linger.ms": 1, "security.protocol": "plaintext"}))


def test_without_the_extra_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_kafka(name: str, *arguments: Any) -> Any:
        if name == "confluent_kafka":
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_kafka)
    with pytest.raises(KafkaUnfit) as caught:
        check_client(_settings())
    assert str(caught.value) == (
        "journal.kafka needs an extra (No module named 'confluent_kafka'): pip install 'tracegrade[kafka]', "
        "or remove journal.kafka"
    )
