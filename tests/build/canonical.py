"""Canonical results: what live, replay and another order of arrival must agree on, byte for byte (promises 2 and 3)."""

import json
from collections.abc import Mapping

from tracegrade.model.json_value import JsonValue

# What may differ between two runs over the same spans and rules.
_RUN_DEPENDENT = ("id", "run", "revision", "close_reason", "time")


def canonical_line(evaluation: Mapping[str, JsonValue]) -> str:
    """One line of a run's canonical results: `Evaluation.to_json` without what depends on the run, keys sorted."""
    kept = {key: value for key, value in evaluation.items() if key not in _RUN_DEPENDENT}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))
