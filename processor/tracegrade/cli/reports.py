"""Judgements for other programs: JUnit XML, SARIF and Markdown, the same of ``replay`` and ``rules test``.

JUnit: one test suite a rule, a fail is a failure, an error an error, not_evaluable is skipped. SARIF: a result for each
fail and error, at the rule's file; the trace is its logical location. Markdown: counts, then what failed.

Source: the JUnit XML that CI servers read (testmoapp/junitxml); SARIF 2.1.0, OASIS, section 3.27 (result).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import click

from tracegrade.cli.output import markdown_table
from tracegrade.words import json_text, printable_json, printable_xml

if TYPE_CHECKING:
    from tracegrade.match.rule import Level, Rule
    from tracegrade.model.evaluation import Outcome

REPORT_FORMATS = ("junit", "sarif", "markdown")
OUTCOMES: "tuple[Outcome, ...]" = ("pass", "fail", "not_evaluable", "error")

_JUNIT_ELEMENTS = {"fail": "failure", "error": "error", "not_evaluable": "skipped"}
_SARIF_LEVELS: "dict[Level, str]" = {
    "info": "note",
    "low": "note",
    "medium": "warning",
    "high": "error",
    "critical": "error",
}
# What XML 1.0 cannot hold, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"[\\`\[\]!]")
_MAX_LISTED = 50

report_format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", *REPORT_FORMATS]),
    default="table",
    show_default=True,
    help="A table, one JSON object per line, or a report for CI.",
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that passed or not.

    ``name`` says what was judged, unique within the rule as far as possible; ``place`` what it was found in: a trace's
    id or the name of a file; ``key`` is the same for the same finding in another run.
    """

    rule: "Rule"
    rule_path: str
    name: str
    outcome: "Outcome"
    message: str
    place: str
    key: str


def report(output_format: str, checks: Sequence[Check], title: str) -> str:
    """All of `checks` in one of `REPORT_FORMATS`; `title` is what was done."""
    match output_format:
        case "junit":
            return _junit(checks, title)
        case "sarif":
            return _sarif(checks)
        case _:
            return _markdown(checks, title)


def _junit(checks: Sequence[Check], title: str) -> str:
    suites = ElementTree.Element("testsuites", {"name": title, **_counts(checks)})
    for rule_id, of_rule in _by_rule(checks).items():
        suite = ElementTree.SubElement(suites, "testsuite", {"name": rule_id, **_counts(of_rule)})
        for check in of_rule:
            name = _xml_text(check.name)
            case = ElementTree.SubElement(suite, "testcase", {"classname": rule_id, "name": name})
            if (element := _JUNIT_ELEMENTS.get(check.outcome)) is not None:
                ElementTree.SubElement(case, element, {"message": _xml_text(check.message)})
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + printable_xml(ElementTree.tostring(suites, encoding="unicode"))


def _counts(checks: Sequence[Check]) -> dict[str, str]:
    outcomes = Counter(check.outcome for check in checks)
    numbers = {
        "tests": len(checks),
        "failures": outcomes["fail"],
        "errors": outcomes["error"],
        "skipped": outcomes["not_evaluable"],
    }
    return {name: str(number) for name, number in numbers.items()}


def _by_rule(checks: Iterable[Check]) -> dict[str, list[Check]]:
    found: dict[str, list[Check]] = {}
    for check in checks:
        found.setdefault(check.rule.id, []).append(check)
    return found


def _xml_text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _sarif(checks: Sequence[Check]) -> str:
    rules = {check.rule.id: check.rule for check in checks}
    driver = {
        "name": "tracegrade",
        "version": version("tracegrade"),
        "rules": [_sarif_rule(rule) for rule in rules.values()],
    }
    results = [_sarif_result(check) for check in checks if check.outcome in ("fail", "error")]
    log = json_text(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "results": results}],
        }
    )
    return printable_json(log)


def _sarif_rule(rule: "Rule") -> dict[str, Any]:
    described = {
        "id": rule.id,
        "shortDescription": {"text": rule.title or rule.id},
        "defaultConfiguration": {"level": _SARIF_LEVELS[rule.level]},
        "properties": {"tags": rule.tags, "status": rule.status},
    }
    return described | ({"fullDescription": {"text": rule.description}} if rule.description else {})


def _sarif_result(check: Check) -> dict[str, Any]:
    return {
        "ruleId": check.rule.id,
        "level": _SARIF_LEVELS[check.rule.level],
        "message": {"text": f"{check.name}: {check.message}"},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": check.rule_path}, "region": {"startLine": 1}},
                "logicalLocations": [{"name": check.place, "fullyQualifiedName": f"{check.place}/{check.name}"}],
            }
        ],
        "partialFingerprints": {"tracegrade/v1": check.key},
    }


def _markdown(checks: Sequence[Check], title: str) -> str:
    by_rule = _by_rule(checks)
    counted = {rule_id: Counter(check.outcome for check in of_rule) for rule_id, of_rule in by_rule.items()}
    rows = [[rule_id, *(str(outcomes[outcome] or "") for outcome in OUTCOMES)] for rule_id, outcomes in counted.items()]
    failed = [check for check in checks if check.outcome in ("fail", "error")]
    parts = [f"## {title}", markdown_table(["rule", *OUTCOMES], rows)]
    if failed:
        listed = [
            [check.outcome, check.rule.id, _as_text(check.name), _as_text(check.message)]
            for check in failed[:_MAX_LISTED]
        ]
        parts += ["### What failed", markdown_table(["outcome", "rule", "what", "why"], listed)]
    if (rest := len(failed) - _MAX_LISTED) > 0:
        parts.append(f"... and {rest} more; --format json has all.")
    return "\n\n".join(parts)


def _as_text(text: str) -> str:
    """`text`, which a sender may have written, as Markdown that shows it: no link, picture or element of its making."""
    return _MARKDOWN.sub(r"\\\g<0>", text).replace("<", "&lt;")
