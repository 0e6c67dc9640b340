"""The example of each matcher, as the reference shows it: what it says, a value that meets it and one that does not."""

from dataclasses import dataclass

from docs.pages import ROOT
from tracegrade.document.yaml_text import read
from tracegrade.model.json_value import JsonValue


@dataclass(frozen=True)
class Example:
    """What a matcher says, a value that meets it and one that does not."""

    argument: JsonValue
    meets: JsonValue
    meets_not: JsonValue


def _shown() -> dict[str, Example]:
    """Those of docs/reference/matchers.yaml in which one member is expected to meet the matcher."""
    shown = read(ROOT / "docs" / "reference" / "matchers.yaml").value
    found = {}
    assert isinstance(shown, dict)
    for word, example in shown.items():
        match example:
            case {"expected": {**expected}, "met_by": {**met}, "not_met_by": {**not_met}}:
                ((name, criterion),) = expected.items()
                if met.keys() == not_met.keys() == {name} and isinstance(criterion, dict) and list(criterion) == [word]:
                    found[word] = Example(criterion[word], met[name], not_met[name])
    return found


EXAMPLES = _shown()
