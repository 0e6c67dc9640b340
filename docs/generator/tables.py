"""Tables and help texts, made from the code they describe.

Nothing here depends on the machine: no times, no paths, one terminal width.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from click.testing import CliRunner

from generator.fields import field_rows, kind
from tracegrade.cel.variables import VARIABLES, CelType
from tracegrade.cli import main
from tracegrade.cli.output import markdown_table
from tracegrade.config import settings_schema
from tracegrade.deliver import sinks
from tracegrade.deliver.parquet.columns import COLUMNS, Table
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.extract import dialects
from tracegrade.extract.registry import DIALECTS, OURS
from tracegrade.otlp.prometheus import prometheus_name
from tracegrade.rule.builtin import DEFAULT_RULES
from tracegrade.rule.evaluation_spec import ItemHead
from tracegrade.rule.load import load_rules
from tracegrade.rule.schema import rule_schema
from tracegrade.telemetry.conditions import KINDS
from tracegrade.telemetry.metrics import METRICS
from tracegrade.web.problem import PREFIX, TYPES

_TESTS = Path(__file__).resolve().parents[2] / "tests"


def problem_table() -> str:
    """The types of its errors."""
    return markdown_table(["type", "meaning"], [(f"`{PREFIX}{name}`", text) for name, text in TYPES.items()])


def identity_table() -> str:
    """The attributes by which what is to be deleted is found."""
    rows = [("`--session`", OURS.session_keys), ("`--user`", OURS.user_keys)]
    return markdown_table(
        ["option", "attributes"],
        [(option, ", ".join(f"`{key}`" for key in sorted(set(keys)))) for option, keys in rows],
    )


def cel_table() -> str:
    """What an expression sees."""
    rows = []
    for name, field in VARIABLES.items():
        rows.append((f"`{name}`", _cel_type(field.type), field.summary))
        item = field.type.item or field.type
        of = f"{name}[0]" if field.type.item is not None else name
        rows += [
            (f"`{of}.{member}`", _cel_type(inside.type), inside.summary)
            for member, inside in (item.fields or {}).items()
        ]
    return markdown_table(["name", "is", "says"], rows)


def _cel_type(of: CelType) -> str:
    """What a value is, in a word or two."""
    return "a list" if of.kind == "list" else "an object" if of.kind == "map" else of.called


_FIELD = ("takes", "default", "meaning")


def settings() -> str:
    """A part for each section of the settings file, with a table for each object in it."""
    parts = []
    descriptions = {name: part["description"] for name, part in settings_schema()["properties"].items()}
    objects: dict[str, list[tuple[str, ...]]] = {}
    for path, *row in setting_rows():
        parent, _, key = path.rpartition(".")
        objects.setdefault(parent, []).append((f"`{key}`", *row))
    for top in dict.fromkeys(parent.partition(".")[0] for parent in objects):
        parts += [f"## {top}\n\n{descriptions[top].rstrip('.')}."] if top else []
        parts += [table(("key", *_FIELD), objects[top])] if top in objects else []
        for parent, rows in objects.items():
            if parent.startswith(f"{top}."):
                parts.append(f"### {parent}\n\n{table(('key', *_FIELD), rows)}")
    return "\n\n".join(parts)


def setting_rows() -> list[tuple[str, str, str, str]]:
    """Every key of the settings file by its whole path, what it takes, its default and its meaning."""
    schema = settings_schema()
    return [row for name, part in schema["properties"].items() for row in _settings(part, name, schema["$defs"])]


def rule_fields() -> str:
    """The fields of a rule file."""
    schema = rule_schema()
    needed = {name: {"needed": name in schema["required"]} for name in schema["properties"]}
    rows = []
    for name, part in schema["properties"].items():
        # Clauses are the same in both: shown once.
        shown = {"description": part["description"], "default": None} if name == "unless" else part
        rows += _settings({**shown, **needed[name]}, name, schema["$defs"])
    return table(("field", *_FIELD), [(f"`{path}`", *row) for path, *row in rows])


def _settings(described: dict[str, Any], path: str, definitions: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    section = _section(described, definitions)
    if section is not None:
        for name, part in section["properties"].items():
            needed = {} if name not in section.get("required", ()) else {"needed": True}
            yield from _settings({**part, **needed}, f"{path}.{name}", definitions)
        return
    items = described.get("items", {})
    if "$ref" in items:
        yield from _settings(items, f"{path}[]", definitions)
        return
    members = described.get("additionalProperties")
    if isinstance(members, dict) and _section(members, definitions) is not None:
        name = f"{path}.otlp[/NAME]" if path == "exporters" else f"{path}.NAME"
        yield from _settings(members, name, definitions)
        return
    yield path, kind(described, definitions), _default(described), described["description"].rstrip(".")


def _section(described: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any] | None:
    """The object that `described` stands for, if it is one with fixed keys."""
    options = [described, *described.get("anyOf", ()), *described.get("allOf", ())]
    names = [option["$ref"].rpartition("/")[2] for option in options if "$ref" in option]
    return definitions[names[0]] if names else None


def _default(described: dict[str, Any]) -> str:
    if described.get("needed"):
        return "needed"
    empty = {"object": {}, "array": []}.get(described.get("type", ""))
    default = described.get("default", empty)
    return "none" if default is None or default == "" else f"`{_text(default)}`"


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def dialect_table() -> str:
    """The ways of writing tool calls that are read."""
    return table(("dialect", "read from"), _members(dialects))


def log_event_table() -> str:
    """The log events that are read, and the dialects that read them."""
    rows = [
        (
            f"`{name}`",
            ", ".join(f"`{dialect.name}`" for dialect in DIALECTS.values() if name in dialect.events) or "all",
        )
        for name in sorted(OURS.events)
    ]
    return table(("event", "dialects"), [*rows, ("the name of its own scope", "all")])


def limit_table() -> str:
    """What senders' spans do not hold: the cases of extraction that have a limit, and how their calls are read."""
    rows = []
    for path in sorted((_TESTS / "extract").glob("*/*.yaml")):
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "limit" in case:
            calls = case["expected"]["calls"]
            statuses = [
                ", ".join(sorted({call.get(status, "ok") for call in calls}))
                for status in ("arguments_status", "output_status")
            ]
            rows.append((f"`{path.parent.name}`", case["limit"], *statuses))
    return table(("dialect", "what its spans may not hold", "arguments are then read as", "results"), rows)


def sink_table() -> str:
    """Where results go."""
    return table(("sink", "delivers"), _members(sinks))


def parquet_columns(name: Table) -> str:
    """The columns of a Parquet table; those that hold values are marked."""
    return table(
        ("column", "type", "meaning"),
        [
            (
                f"`{column.name}`",
                column.type,
                column.meaning + ("; with `include_values` alone" if column.is_value else ""),
            )
            for column in COLUMNS[name]
        ],
    )


def _members(package: ModuleType) -> list[tuple[str, str]]:
    """Name and first paragraph of each module of a plug-in folder."""
    (folder,) = map(Path, package.__path__)
    return [(f"`{file.stem}`", _first_paragraph(file)) for file in sorted(folder.glob("[!_]*.py"))]


def _first_paragraph(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("``", "`")


def evaluator_table() -> str:
    """The evaluators, each with a page of its own."""
    rows = [(f"[`{name}`]({name}.md)", evaluator.summary) for name, evaluator in EVALUATORS.items()]
    return table(("evaluator", "judges"), rows)


def item_table() -> str:
    """What every item of a rule's ``evaluate`` takes."""
    rows = [(f"`{path}`", kind, default, meaning) for path, kind, default, meaning in field_rows(ItemHead)]
    return table(("field", "takes", "default", "meaning"), rows)


def other_systems_table() -> str:
    """What other systems' evaluators are here; tests/evaluate/test_other_systems.py judges each line."""
    lines = yaml.safe_load((_TESTS / "evaluate" / "other_systems.yaml").read_text(encoding="utf-8"))
    rows = []
    for line in lines:
        written = [
            yaml.safe_dump(item, default_flow_style=True, sort_keys=False, width=10_000) for item in line["here"]
        ]
        here = "<br>".join(f"`{item.strip()}`" for item in written) or "not to be said"
        rows.append((line["system"], line["there"], here, line.get("but", "")))
    return table(("system", "there", "here, under `evaluate`", "but"), rows)


def metric_table() -> str:
    """Our own metrics."""
    rows = []
    for name, metric in METRICS.items():
        ending = "_total" if metric.kind == "counter" else ""
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(
            (f"`{name}`", f"`{prometheus_name(name, metric)}{ending}`", metric.kind, labels, metric.description)
        )
    return table(("metric", "on /metrics", "kind", "labels", "counts"), rows)


def condition_table() -> str:
    """What may be wrong at run time."""
    rows = [(f"`{name}`", kind.meaning, "yes" if kind.refuses else "", kind.advice) for name, kind in KINDS.items()]
    return table(("condition", "meaning", "senders refused", "what to do"), rows)


def rule_table() -> str:
    """The ready-made rules."""
    result = CliRunner().invoke(main, ["rules", "list", "--format", "markdown", "rules"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output.strip()


def rule_details() -> str:
    """Every ready-made rule: what it judges and why, and when a fail means nothing."""
    parts = []
    for rule in load_rules(["builtin:all"]).rules:
        parts.append(f"### {rule.id}\n\n{rule.title}.\n\n{' '.join(rule.description.split())}")
        evaluators = dict.fromkeys(spec.evaluator.name for spec in rule.specs)
        links = ", ".join(f"[{name}](evaluators/{name}.md)" for name in evaluators)
        parts.append(f"{rule.status}, {rule.level}, judges by {links}.")
        if rule.false_positives:
            parts.append("A fail means nothing when:\n\n" + "\n".join(f"- {text}" for text in rule.false_positives))
    return "\n\n".join(parts)


def default_rules() -> str:
    """What judges when nobody names a rule."""
    return ", ".join(f"`{name}`" for name in sorted(DEFAULT_RULES)) + "."


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return markdown_table(columns, rows)
