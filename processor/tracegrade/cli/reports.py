"""Judgements for other programs: JUnit XML, SARIF and Markdown, the same of ``replay`` and ``rules test``.

JUnit: one test suite a rule, a fail is a failure, an error an error, not_evaluable is skipped. SARIF: a result for each
fail and error, at the rule's file; the trace is its logical location. Markdown: counts, then what failed.

Of ``replay``, all rules are there, also those without results, with pass rate, interval and the gate's word: as
properties of test suites and SARIF's rules, as columns of the Markdown table. With a gate, each rule has a test case
``gate`` in JUnit, and in SARIF a result when the gate fails it. What the gate says of everything, unread files and a
bound over all rules included, is the last test suite, and in SARIF a notification of the invocation.

Source: the JUnit XML that CI servers read (testmoapp/junitxml); SARIF 2.1.0, OASIS, section 3.27 (result).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from tracegrade.cli.output import format_of, markdown_table
from tracegrade.display import count, json_text, printable_json, printable_xml
from tracegrade.model.evaluation import OUTCOMES

if TYPE_CHECKING:
    from tracegrade.alert.notify.links import Links
    from tracegrade.model.evaluation import Outcome
    from tracegrade.model.tally import Tally
    from tracegrade.pipeline.gate import RuleVerdict, Verdict, Word
    from tracegrade.rule.rule import Level, Rule
    from tracegrade.rule.rule_set import RuleSet

REPORT_FORMATS = ("junit", "sarif", "markdown")

_JUNIT_ELEMENTS = {"fail": "failure", "error": "error", "not_evaluable": "skipped"}
SARIF_LEVELS: "dict[Level, str]" = {
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

report_format_option = format_of(
    ["table", "json", *REPORT_FORMATS], "A table, one JSON object per line, or a report for CI."
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


def report(
    output_format: str,
    checks: Sequence[Check],
    title: str,
    rule_set: "RuleSet | None" = None,
    verdict: "Verdict | None" = None,
    groups: "Mapping[str, Mapping[str, Tally]] | None" = None,
) -> str:
    """All of `checks` in one of `REPORT_FORMATS`.

    Args:
        output_format: which one.
        checks: what was judged.
        title: what was done.
        rule_set: the rules in `verdict`.
        verdict: what a gate says of each rule, whether one was asked for or not; None: nothing is counted by rule.
        groups: for Markdown, outcomes by the values of what is named.
    """
    standings = _standings(rule_set, verdict)
    match output_format:
        case "junit":
            return _junit(checks, title, standings, verdict)
        case "sarif":
            return _sarif(checks, standings, verdict)
        case _:
            return _markdown(checks, title, standings, verdict, groups or {})


@dataclass(frozen=True, slots=True)
class _Standing:
    """One rule as a whole, and what the gate says of it."""

    rule: "Rule"
    path: str
    verdict: "RuleVerdict"

    @property
    def text(self) -> str:
        """Its numbers in one line."""
        tally = self.verdict.counted.tally
        rate = f"pass rate {rate_text(tally)} ({interval_text(tally)}) of " if tally.judged else ""
        return rate + count(tally.judged, "result") + (f"; {self.verdict.reason}" if self.verdict.reason else "")

    @property
    def properties(self) -> dict[str, str | float | int]:
        """Its numbers by name; those there are."""
        return {key: value for key, value in self.verdict.to_json().items() if isinstance(value, str | float | int)}


def _standings(rule_set: "RuleSet | None", verdict: "Verdict | None") -> dict[str, _Standing]:
    if rule_set is None or verdict is None:
        return {}
    rules = {rule.id: rule for rule in rule_set.rules}
    return {
        (rule_id := of_rule.counted.rule_id): _Standing(rules[rule_id], rule_set.paths.get(rule_id, ""), of_rule)
        for of_rule in verdict.rules
    }


def rate_text(tally: "Tally") -> str:
    """The pass rate, "" when there is none."""
    rate = tally.pass_rate
    return "" if rate is None else f"{rate:.1%}"


def interval_text(tally: "Tally") -> str:
    """The interval of the pass rate, ``88.4-92.8%``; "" when there is none."""
    interval = tally.interval
    return "" if interval is None else f"{interval[0] * 100:.1f}-{interval[1]:.1%}"


# What stands in a rule's suite beside its evaluations, where a gate was asked for.
_GATE_ELEMENTS = {"fail": "failure", "cannot_tell": "skipped"}


def _junit(checks: Sequence[Check], title: str, standings: Mapping[str, _Standing], verdict: "Verdict | None") -> str:
    gated = {rule_id: standing for rule_id, standing in standings.items() if standing.verdict.word != "not_gated"}
    words = [standing.verdict.word for standing in gated.values()]
    whole = [] if verdict is None or verdict.word == "not_gated" else [verdict]
    suites = ElementTree.Element("testsuites", {"name": title, **_counts(checks, [*words, *(of.word for of in whole)])})
    by_rule = _by_rule(checks)
    for rule_id in dict.fromkeys([*by_rule, *standings]):
        of_rule = by_rule.get(rule_id, [])
        gate = [gated[rule_id]] if rule_id in gated else []
        suite = ElementTree.SubElement(
            suites, "testsuite", {"name": rule_id, **_counts(of_rule, [of.verdict.word for of in gate])}
        )
        if rule_id in standings:
            properties = ElementTree.SubElement(suite, "properties")
            for key, value in standings[rule_id].properties.items():
                ElementTree.SubElement(properties, "property", {"name": key, "value": f"{value}"})
        for check in of_rule:
            name = xml_text(check.name)
            case = ElementTree.SubElement(suite, "testcase", {"classname": rule_id, "name": name})
            if (element := _JUNIT_ELEMENTS.get(check.outcome)) is not None:
                ElementTree.SubElement(case, element, {"message": xml_text(check.message)})
        for standing in gate:
            _junit_gate(suite, rule_id, standing.verdict.word, standing.text)
    for of in whole:
        suite = ElementTree.SubElement(suites, "testsuite", {"name": "gate", **_counts([], [of.word])})
        _junit_gate(suite, "gate", of.word, _sentences(of))
    return junit_document(suites)


def _junit_gate(suite: ElementTree.Element, classname: str, word: "Word", text: str) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": classname, "name": "gate"})
    if (element := _GATE_ELEMENTS.get(word)) is not None:
        ElementTree.SubElement(case, element, {"message": xml_text(text)})


def _sentences(verdict: "Verdict") -> str:
    return f"{'. '.join(verdict.reasons)}."


def junit_document(suites: ElementTree.Element) -> str:
    """JUnit XML of these test suites, with their declaration."""
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + printable_xml(ElementTree.tostring(suites, encoding="unicode"))


def _counts(checks: Sequence[Check], gated: Sequence["Word"]) -> dict[str, str]:
    outcomes = Counter(check.outcome for check in checks)
    words = Counter(gated)
    numbers = {
        "tests": len(checks) + len(gated),
        "failures": outcomes["fail"] + words["fail"],
        "errors": outcomes["error"],
        "skipped": outcomes["not_evaluable"] + words["cannot_tell"],
    }
    return {name: str(number) for name, number in numbers.items()}


def _by_rule(checks: Iterable[Check]) -> dict[str, list[Check]]:
    found: dict[str, list[Check]] = {}
    for check in checks:
        found.setdefault(check.rule.id, []).append(check)
    return found


def xml_text(text: str) -> str:
    """`text` without what XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _sarif(checks: Sequence[Check], standings: Mapping[str, _Standing], verdict: "Verdict | None") -> str:
    rules = {check.rule.id: check.rule for check in checks}
    rules |= {rule_id: standing.rule for rule_id, standing in standings.items()}
    failed = [standing for standing in standings.values() if standing.verdict.word == "fail"]
    results = [_sarif_gate(standing) for standing in failed]
    results += [_sarif_result(check) for check in checks if check.outcome in ("fail", "error")]
    level = _SARIF_GATE_LEVELS.get("not_gated" if verdict is None else verdict.word)
    told = [] if verdict is None or level is None else [f"gate: {_sentences(verdict)}"]
    notifications = [{"level": level, "message": {"text": text}} for text in told]
    return sarif_log([_sarif_rule(rule, standings.get(rule.id)) for rule in rules.values()], results, notifications)


_SARIF_GATE_LEVELS = {"fail": "error", "cannot_tell": "warning"}


def sarif_log(
    rules: Sequence[dict[str, Any]], results: Sequence[dict[str, Any]], notifications: Sequence[dict[str, Any]] = ()
) -> str:
    """A SARIF log with one run of these rules, as SARIF's objects, what they found, and what is said of the run."""
    driver = {"name": "tracegrade", "version": version("tracegrade"), "rules": rules}
    invocation = {"executionSuccessful": True, "toolExecutionNotifications": notifications}
    told = {"invocations": [invocation]} if notifications else {}
    log = json_text(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, **told, "results": results}],
        }
    )
    return printable_json(log)


def _sarif_rule(rule: "Rule", standing: _Standing | None) -> dict[str, Any]:
    numbers = {} if standing is None else standing.verdict.to_json()
    described = {
        "id": rule.id,
        "shortDescription": {"text": rule.title or rule.id},
        "defaultConfiguration": {"level": SARIF_LEVELS[rule.level]},
        "properties": {"tags": rule.tags, "status": rule.status, **numbers},
    }
    return described | ({"fullDescription": {"text": rule.description}} if rule.description else {})


def _sarif_gate(standing: _Standing) -> dict[str, Any]:
    return {
        "ruleId": standing.rule.id,
        "level": SARIF_LEVELS[standing.rule.level],
        "message": {"text": f"gate: {standing.text}"},
        "locations": [
            {"physicalLocation": file_location(standing.path)},
        ],
        "partialFingerprints": {"tracegrade/v1": f"{standing.rule.id}/gate"},
    }


def file_location(path: str) -> dict[str, Any]:
    """The file at `path`, as SARIF says it."""
    here = Path(path).absolute()
    inside = here.is_relative_to(Path.cwd())  # code scanning looks for files of the checkout
    uri = here.relative_to(Path.cwd()).as_posix() if inside else path
    return {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}


def _sarif_result(check: Check) -> dict[str, Any]:
    return {
        "ruleId": check.rule.id,
        "level": SARIF_LEVELS[check.rule.level],
        "message": {"text": f"{check.name}: {check.message}"},
        "locations": [
            {
                "physicalLocation": file_location(check.rule_path),
                "logicalLocations": [{"name": check.place, "fullyQualifiedName": f"{check.place}/{check.name}"}],
            }
        ],
        "partialFingerprints": {"tracegrade/v1": check.key},
    }


def _markdown(
    checks: Sequence[Check],
    title: str,
    standings: Mapping[str, _Standing],
    verdict: "Verdict | None",
    groups: "Mapping[str, Mapping[str, Tally]]",
) -> str:
    parts = [f"## {title}"]
    for name, tallies in groups.items():
        columns = [name, *OUTCOMES, *_NUMBERS]
        rows = [
            [as_markdown(group) or "(none)", *_outcomes(tally), *_numbers(tally)]
            for group, tally in sorted(tallies.items())
        ]
        parts.append(markdown_table(columns, rows))
    if standings:
        if verdict is not None and verdict.reasons:
            parts.append(f"**Gate: {_word(verdict.word)}.** {'. '.join(verdict.reasons)}.")
        parts.append(_rules_table(standings))
    else:
        counted = {rule_id: Counter(check.outcome for check in found) for rule_id, found in _by_rule(checks).items()}
        rows = [[rule_id, *(str(found[outcome] or "") for outcome in OUTCOMES)] for rule_id, found in counted.items()]
        parts.append(markdown_table(["rule", *OUTCOMES], rows))
    failed = [check for check in checks if check.outcome in ("fail", "error")]
    if failed:
        listed = [
            [check.outcome, check.rule.id, as_markdown(check.name), as_markdown(check.message)]
            for check in failed[:_MAX_LISTED]
        ]
        parts += ["### What failed", markdown_table(["outcome", "rule", "what", "why"], listed)]
    if (rest := len(failed) - _MAX_LISTED) > 0:
        parts.append(f"... and {rest} more; --format json has all.")
    return "\n\n".join(parts)


_NUMBERS = ["incomplete", "results", "pass rate", "95 % interval"]


def _rules_table(standings: Mapping[str, _Standing]) -> str:
    columns = ["rule", *OUTCOMES, *_NUMBERS, "level", "status", "gate"]
    rows = []
    for rule_id, standing in standings.items():
        tally, found = standing.verdict.counted.tally, standing.verdict
        gate = ": ".join(filter(None, [_word(found.word), found.reason]))
        rows.append([rule_id, *_outcomes(tally), *_numbers(tally), standing.rule.level, standing.rule.status, gate])
    return markdown_table(columns, rows)


def _word(word: str) -> str:
    return "" if word == "not_gated" else word.replace("_", " ")


def _outcomes(tally: "Tally") -> list[str]:
    return [str(number or "") for number in (tally.passed, tally.failed, tally.not_evaluable, tally.errors)]


def _numbers(tally: "Tally") -> list[str]:
    return [str(tally.incomplete or ""), str(tally.judged), rate_text(tally), interval_text(tally)]


def as_markdown(text: str) -> str:
    """`text`, which a sender may have written, as Markdown that shows it: no link, picture or element of its making."""
    return _MARKDOWN.sub(r"\\\g<0>", text).replace("<", "&lt;")


def as_code(text: str) -> str:
    """`text` as code in Markdown, whatever it holds."""
    return f"`{text.replace('`', chr(39))}`"


def link_markdown(trace_id: str | None, links: "Links") -> str:
    """A trace in Markdown: as a link where its address is known; "" for none."""
    if trace_id is None:
        return ""
    address = links.trace(trace_id)
    return f"[{trace_id}]({address})" if address != trace_id else as_code(trace_id)
