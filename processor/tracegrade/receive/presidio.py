"""The recognisers of Presidio as a detector: names of people and more in running text, by a model of a language."""

from collections.abc import Iterator
from typing import Any

from tracegrade.model.errors import TraceGradeError
from tracegrade.redact.settings import PRESIDIO, PresidioSettings
from tracegrade.sensitive.detector import Detector, Part

_MANY = 20_000  # characters of one text: the model's memory grows with it


def presidio_detector(settings: PresidioSettings) -> Detector:
    """A detector of the entities that the settings name. It has no signs: every text is looked at.

    Raises:
        TraceGradeError: the package, or the model, is not installed, or does not know an entity.
    """
    analyzer = _analyzer(settings)
    known = set(analyzer.get_supported_entities(settings.language))
    if unknown := sorted(set(settings.entities) - known):
        raise TraceGradeError(
            f"redaction.presidio.entities: Presidio knows no {unknown[0]!r} in the language {settings.language!r}; "
            f"it knows {', '.join(sorted(known))}"
        )

    def find(text: str, key: str) -> Iterator[Part]:
        end = 0  # two entities may overlap
        for begin in range(0, len(text), _MANY):
            found = analyzer.analyze(
                text[begin : begin + _MANY],
                language=settings.language,
                entities=settings.entities,
                score_threshold=settings.min_score,
            )
            for start, stop in sorted((begin + one.start, begin + one.end) for one in found):
                if start >= end:
                    yield start, stop
                    end = stop

    return Detector(PRESIDIO, find, lambda value, number: f"[redacted-{number}]", joins=False)


def _analyzer(settings: PresidioSettings) -> Any:
    try:
        import spacy
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import SpacyNlpEngine
    except ImportError as error:
        raise TraceGradeError(
            f"redaction.presidio: {error.name or 'presidio_analyzer'} is not installed; "
            "pip install 'tracegrade[presidio]'"
        ) from None
    try:
        # Loaded here: Presidio would fetch one that is missing over the network.
        model = spacy.load(settings.model)
    except (OSError, ValueError):
        raise TraceGradeError(
            f"redaction.presidio.model: spaCy has no model {settings.model!r}; install it, with "
            f"'python -m spacy download NAME', or give the folder of one"
        ) from None
    engine = SpacyNlpEngine(models=[{"lang_code": settings.language, "model_name": settings.model}])
    engine.nlp = {settings.language: model}
    return AnalyzerEngine(nlp_engine=engine, supported_languages=[settings.language])
