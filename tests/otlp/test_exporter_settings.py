import pytest

from build import each
from tracegrade.document.problem import FileError
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import parse
from tracegrade.model.signal import Signal
from tracegrade.otlp.exporter_settings import ExporterSettings


def settings(text: str) -> ExporterSettings:
    return validate(parse(text, "config.yaml"), ExporterSettings)


def refusal(text: str) -> str:
    with pytest.raises(FileError) as caught:
        settings(text)
    return str(caught.value)


def test_defaults_are_the_collectors_but_nothing_is_ever_given_up():
    found = settings("endpoint: collector:4317")
    assert (found.protocol, found.compression, found.timeout, found.when_full) == ("grpc", "auto", 5.0, "refuse")
    assert not found.tls.insecure
    retry = found.retry_on_failure
    assert retry.enabled
    assert (retry.initial_interval, retry.multiplier, retry.randomization_factor) == (5.0, 1.5, 0.5)
    assert (retry.max_interval, retry.max_elapsed_time) == (30.0, 0.0)
    assert all(found.takes(signal) for signal in (Signal.TRACES, Signal.LOGS, Signal.METRICS))


@each(
    ("written", "compresses"),
    [
        ("{endpoint: 'collector:4317'}", True),
        ("{endpoint: 'localhost:4317'}", False),
        ("{endpoint: '127.0.0.1:4317'}", False),
        ("{endpoint: '[::1]:4317'}", False),
        ("{endpoint: '10.0.0.1:4317'}", True),
        ("{protocol: http, endpoint: 'http://localhost:4318'}", False),
        ("{protocol: http, endpoint: 'https://localhost.example'}", True),
        ("{endpoint: 'localhost:4317', compression: gzip}", True),
        ("{endpoint: 'collector:4317', compression: none}", False),
    ],
)
def test_only_what_leaves_this_machine_is_compressed_unless_said_otherwise(written, compresses):
    assert settings(written).compresses is compresses


@each(
    ("text", "message"),
    [
        ("endpoint: collector", "expected host:port, found 'collector'; OTLP/gRPC usually listens on 4317"),
        ("endpoint: ''", "expected host:port, found ''"),
        ("endpoint: 'collector:'", "expected host:port, found 'collector:'"),
        ("endpoint: 'collector:0'", "expected host:port, found 'collector:0'"),
        ("endpoint: 'collector:65536'", "expected host:port"),
        ("endpoint: '::1:4317'", "expected host:port"),  # IPv6 needs brackets: where would the port begin?
        ("endpoint: 'collector:4317/v1/traces'", "expected host:port"),
        ("endpoint: 'https://collector:4317'", "for protocol grpc, found 'https://collector:4317'; write 'coll"),
        ("endpoint: 'http://collector:4317/'", "write 'collector:4317' and tls: {insecure: true}"),
        ("{protocol: http, endpoint: 'collector:4318'}", "expected a URL such as 'https://collector:4318'"),
        (
            "{protocol: http, endpoint: 'collector:4318', tls: {insecure: true}}",
            "expected a URL such as 'http://collector:4318'",
        ),
        ("{protocol: http, endpoint: 'https://collector:port'}", "expected a URL"),
        ("{protocol: http, endpoint: 'https://collector:0'}", "expected a URL"),
        ("{protocol: http, endpoint: 'https://me:secret@collector'}", "expected a URL"),
        ("{protocol: http, endpoint: 'https://collector/?a=b'}", "expected a URL"),
        ("{protocol: http, endpoint: 'https://collector/v1/traces'}", "leave out '/v1/traces', it is added"),
        (
            "{protocol: http, endpoint: 'https://collector', tls: {insecure: true}}",
            "endpoint says https and tls.insecure says plaintext",
        ),
        (
            "{protocol: http, endpoint: 'http://collector', tls: {server_name_override: x}}",
            "endpoint says http, which is plaintext, and tls has settings",
        ),
        ("{endpoint: 'a:1', tls: {insecure: true, server_name_override: x}}", "server_name_override needs TLS"),
        ("{endpoint: 'a:1', tls: {ca_file: /none/ca.pem}}", "tls.ca_file: expected a readable file, found '/none/ca"),
        ("{endpoint: 'a:1', tls: {insecure_skip_verify: true}}", "unknown key 'insecure_skip_verify'"),
        ("{endpoint: 'a:1', headers: {'a b': c}}", "'a b' is not a header name"),
        ("{endpoint: 'a:1', headers: {key-bin: c}}", "'key-bin' is not a header name"),
        ("{endpoint: 'a:1', headers: {Content-Type: c}}", "'Content-Type' is set by the exporter itself"),
        ("{endpoint: 'a:1', headers: {x-tracegrade-instance: c}}", "is set by the exporter itself"),
        ("{endpoint: 'a:1', compression: zstd}", "compression: expected 'auto', 'gzip' or 'none', found 'zstd'"),
        ("{endpoint: 'a:1', signals: []}", "signals"),
        ("{endpoint: 'a:1', timeout: 0s}", "timeout"),
        ("{endpoint: 'a:1', retry_on_failure: {max_interval: 1s}}", "max_interval (1s) is below initial_interval (5s)"),
        (
            "{endpoint: 'a:1', retry_on_failure: {max_elapsed_time: 10s}}",
            "max_elapsed_time (10s) is below max_interval (30s); expected at least that, or 0s to never give up",
        ),
        ("{endpoint: 'a:1', retry_on_failure: {multiplier: 0.5}}", "multiplier"),
        ("{endpoint: 'a:1', retry_on_failure: {randomization_factor: 1.5}}", "randomization_factor"),
    ],
)
def test_what_is_wrong_is_refused_with_what_to_write(text, message):
    found = refusal(text)
    assert found.startswith("config.yaml:1:")
    assert message in found


def test_half_a_key_pair_is_refused(tmp_path):
    path = tmp_path / "cert.pem"
    path.touch()
    assert "found cert_file without key_file" in refusal(f"{{endpoint: 'a:1', tls: {{cert_file: '{path}'}}}}")
    assert "found key_file without cert_file" in refusal(f"{{endpoint: 'a:1', tls: {{key_file: '{path}'}}}}")


def test_header_values_are_never_shown():
    found = settings("{endpoint: 'a:1', headers: {Authorization: Bearer s3cret}}")
    assert found.headers["authorization"].get_secret_value() == "Bearer s3cret"
    assert "s3cret" not in f"{found!r} {found.model_dump_json()}"
    assert "s3cret" not in refusal("{endpoint: 'a:1', headers: {Authorization: \"s3cret\\n\"}}")


@each(
    ("text", "address"),
    [
        ("endpoint: 'collector:4317'", ("collector", 4317)),
        ("endpoint: '[::1]:4317'", ("::1", 4317)),
        ("{protocol: http, endpoint: 'http://127.0.0.1:4318'}", ("127.0.0.1", 4318)),
        ("{protocol: http, endpoint: 'https://collector/otlp'}", ("collector", 443)),
        ("{protocol: http, endpoint: 'http://collector'}", ("collector", 80)),
    ],
)
def test_the_address_is_what_the_endpoint_names(text, address):
    assert settings(text).address == address


def test_an_exporter_takes_only_the_signals_it_was_told_to_take():
    found = settings("{endpoint: 'a:1', signals: [traces]}")
    assert [signal for signal in Signal if found.takes(signal)] == [Signal.TRACES]
