"""What cases of stored suites need and the settings do not name: said when one is stored, refused when it is run."""

from collections.abc import Iterable

from tracegrade.rule.reading import RuleReading
from tracegrade.rule.semantic_model import why_no_model
from tracegrade.suites.store.suites import StoredCase


def unset_needs(cases: Iterable[StoredCase], reading: RuleReading) -> list[str]:
    """A sentence for each of `cases` that cannot be judged with these settings: the case, and the setting to set.

    No model is loaded: that a folder holds none shows when the suite is run.
    """
    why = why_no_model(reading.semantic_model)
    if why is None:
        return []
    return [
        f"case {case.id!r}: param_scoring: semantic needs a model of text embeddings: {why}"
        for case in cases
        if case.body.get("param_scoring") == "semantic" and case.body.get("scoring_config") is None
    ]
