"""What Presidio recognises is taken out as what other detectors find is; without it, the settings are refused."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.receive.redaction import RequestRedactor, trial_redactor
from tracegrade.redact.settings import RedactionSettings

NAME = "Ann Lee"


class _Analyzer:
    """Knows one name. Takes what the real one takes."""

    def __init__(self, *, nlp_engine: Any, supported_languages: list[str]) -> None:
        assert nlp_engine.nlp.keys() == {"en"}
        assert supported_languages == ["en"]

    def get_supported_entities(self, language: str) -> list[str]:
        return ["PERSON", "LOCATION"]

    def analyze(self, text: str, *, language: str, entities: list[str], score_threshold: float) -> list[Any]:
        starts = [at for at in range(len(text)) if text.startswith(NAME, at)]
        whole = [SimpleNamespace(start=at, end=at + len(NAME)) for at in starts]
        return [*whole, *(SimpleNamespace(start=at + 4, end=at + len(NAME)) for at in starts)]


@pytest.fixture
def presidio(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> object:
        if name != "a-model":
            raise OSError(f"[E050] Can't find model '{name}'.")
        return object()

    modules: dict[str, dict[str, Any]] = {
        "spacy": {"load": load},
        "presidio_analyzer": {"AnalyzerEngine": _Analyzer},
        "presidio_analyzer.nlp_engine": {"SpacyNlpEngine": lambda models: SimpleNamespace(models=models)},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)


def redactor(**presidio: Any) -> RequestRedactor:
    return trial_redactor(RedactionSettings(detectors=["email"], presidio={"model": "a-model", **presidio}))


def request(*texts: str) -> bytes:
    made = ExportTraceServiceRequest()
    span = made.resource_spans.add().scope_spans.add().spans.add(trace_id=bytes(16), span_id=bytes(8))
    for number, text in enumerate(texts):
        span.attributes.add(key=f"{chr(97 + number)}.text").value.string_value = text
    return made.SerializeToString()


def values(payload: bytes) -> list[str]:
    (span,) = ExportTraceServiceRequest.FromString(payload).resource_spans[0].scope_spans[0].spans
    return [attribute.value.string_value for attribute in span.attributes if attribute.key.endswith(".text")]


@pytest.mark.usefixtures("presidio")
def test_what_it_recognises_goes_and_nothing_else() -> None:
    long = f"{'x' * 30_000} {NAME}, {NAME}"
    redacted = redactor().redacted(
        Signal.TRACES, request(f"Ask {NAME} (today)", "ann@corp.io", "nobody", long), "default"
    )
    assert values(redacted.payload) == [
        "Ask [redacted:presidio] (today)",
        "[redacted:email]",
        "nobody",
        f"{'x' * 30_000} [redacted:presidio], [redacted:presidio]",
    ]


@pytest.mark.usefixtures("presidio")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "other"}, "redaction.presidio.model: spaCy has no model 'other'; install it, with"),
        (
            {"entities": ["PERSONS"]},
            "redaction.presidio.entities: Presidio knows no 'PERSONS' in the language 'en'",
        ),
    ],
)
def test_what_it_lacks_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceGradeError) as caught:
        redactor(**settings)
    assert str(caught.value).startswith(message)


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(TraceGradeError, match=r"pip install 'tracegrade\[presidio\]'"):
        redactor()


def test_its_action_is_set_as_that_of_a_detector() -> None:
    RedactionSettings(presidio={"model": "a-model"}, actions={"presidio": "drop"})
    with pytest.raises(ValueError, match="no detector 'presidio'"):
        RedactionSettings(actions={"presidio": "drop"})


def test_the_real_one_with_a_model_of_one_name(tmp_path: Path) -> None:
    pytest.importorskip("presidio_analyzer", reason="needs the extra tracegrade[presidio]; '.ci/long presidio' runs it")
    spacy = pytest.importorskip("spacy")
    model = spacy.blank("en")
    model.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": NAME}])
    model.to_disk(tmp_path / "model")
    redacted = redactor(model=str(tmp_path / "model")).redacted(Signal.TRACES, request(f"Ask {NAME} today"), "default")
    assert values(redacted.payload) == ["Ask [redacted:presidio] today"]
