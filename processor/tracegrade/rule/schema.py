"""The JSON Schema of a rule file, for editors."""

from typing import Any

from tracegrade.document.file_model import write_durations
from tracegrade.rule.rule import Rule

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def rule_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) that every rule file fits; loading checks more than a schema can say."""
    schema = Rule.model_json_schema(by_alias=False)
    write_durations(schema)
    return {"$schema": DRAFT} | schema
