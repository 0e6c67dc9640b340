import json
from xml.etree import ElementTree

import pytest

from tracegrade.cli.reports import Check, report
from tracegrade.model.evaluation import Outcome
from tracegrade.rule.rule import Rule


def rule(rule_id: str, level: str = "medium") -> Rule:
    return Rule.model_validate(
        {
            "id": rule_id,
            "title": f"title of {rule_id}",
            "level": level,
            "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["a"]}],
        }
    )


def check(of: Rule, name: str, outcome: Outcome, message: str = "why") -> Check:
    return Check(of, f"rules/{of.id}/rule.yaml", name, outcome, message, place="t1", key=f"{of.id}/{name}")


FIRST, SECOND = rule("first", "critical"), rule("second", "low")
CHECKS = [
    check(FIRST, "one", "fail", "not called: a | b"),
    check(SECOND, "two", "pass"),
    check(FIRST, "three", "error"),
    check(FIRST, "four", "not_evaluable"),
]


class TestJUnit:
    def test_a_suite_a_rule_with_its_counts(self) -> None:
        root = ElementTree.fromstring(report("junit", CHECKS, "4 traces"))
        assert root.attrib == {"name": "4 traces", "tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
        assert [(suite.get("name"), suite.get("tests")) for suite in root] == [("first", "3"), ("second", "1")]

    def test_each_outcome_has_its_element(self) -> None:
        root = ElementTree.fromstring(report("junit", CHECKS, ""))
        found = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
        assert found == {"one": ["failure"], "two": [], "three": ["error"], "four": ["skipped"]}

    def test_what_xml_cannot_hold_is_replaced(self) -> None:
        root = ElementTree.fromstring(report("junit", [check(FIRST, "a\x00<b>\ud800", "fail", "\x1b[0m")], ""))
        (case,) = root.iter("testcase")
        assert case.get("name") == "a\ufffd<b>\ufffd"
        assert case[0].get("message") == "\ufffd[0m"


class TestSarif:
    def test_fails_and_errors_are_results_at_the_rule_s_file(self) -> None:
        (run,) = json.loads(report("sarif", CHECKS, ""))["runs"]
        assert [result["message"]["text"] for result in run["results"]] == ["one: not called: a | b", "three: why"]
        place = run["results"][0]["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "rules/first/rule.yaml"
        assert run["results"][0]["partialFingerprints"] == {"tracegrade/v1": "first/one"}

    @pytest.mark.parametrize(("level", "sarif"), [("critical", "error"), ("medium", "warning"), ("info", "note")])
    def test_the_level_is_the_rule_s(self, level: str, sarif: str) -> None:
        (run,) = json.loads(report("sarif", [check(rule("r", level), "x", "fail")], ""))["runs"]
        assert run["results"][0]["level"] == sarif
        assert run["tool"]["driver"]["rules"][0]["defaultConfiguration"] == {"level": sarif}

    def test_nothing_wrong_has_no_results_and_names_the_rules(self) -> None:
        (run,) = json.loads(report("sarif", [check(SECOND, "two", "pass")], ""))["runs"]
        assert run["results"] == []
        assert [named["id"] for named in run["tool"]["driver"]["rules"]] == ["second"]


def test_markdown_counts_and_lists_what_failed() -> None:
    text = report("markdown", CHECKS, "4 traces")
    assert text.startswith("## 4 traces\n\n| rule | pass | fail | not_evaluable | error |")
    assert "| first |  | 1 | 1 | 1 |" in text
    assert "| fail | first | one | not called: a \\| b |" in text
    assert "two" not in text.partition("### What failed")[2]


def test_nothing_checked_is_a_report_too() -> None:
    assert ElementTree.fromstring(report("junit", [], "nothing")).get("tests") == "0"
    assert "What failed" not in report("markdown", [], "nothing")


def test_sarif_names_where_it_was_found() -> None:
    one = check(FIRST, "one", "fail")
    assert json.loads(report("sarif", [one], ""))["runs"][0]["results"][0]["locations"][0]["logicalLocations"] == [
        {"name": "t1", "fullyQualifiedName": "t1/one"}
    ]
