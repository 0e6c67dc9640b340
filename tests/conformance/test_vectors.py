"""Every case of a folder of conformance vectors, judged as ``tracegrade evaluate --batch`` judges it.

``pytest tests/conformance --vectors DIR`` runs any folder of that format and prints a table: per file how many cases of
each level passed, and which cannot be asked here: those of other systems' evaluators whose question is not told in our
words. Cases of level informative may differ: the table lists those that do.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from conformance.vector_table import VECTOR_ROWS, VectorRow
from tracegrade.cli import main
from tracegrade.judge_case import judge_case

OWN_VECTORS = Path(__file__).parent / "vectors"


class Vectors(NamedTuple):
    cases: list[tuple[str, dict[str, Any]]]  # with the name of their file
    not_here: list[tuple[str, str, int]]  # file, evaluator, number of cases


def _read(folder: Path) -> Vectors:
    vectors = Vectors([], [])
    for path in sorted(folder.glob("*.json")):
        others: Counter[str] = Counter()
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
            if _is_judged(case):
                vectors.cases.append((path.name, case))
            else:
                others[case["evaluator"]] += 1
        vectors.not_here.extend((path.name, evaluator, count) for evaluator, count in others.items())
    return vectors


def _is_judged(case: dict[str, Any]) -> bool:
    """Whether its evaluator is ours, or its question is told in our words."""
    return judge_case(case).error_type != "unknown_evaluator"


@pytest.fixture(scope="module")
def vectors(request: pytest.FixtureRequest) -> Vectors:
    return _read(request.config.getoption("--vectors") or OWN_VECTORS)


def test_each_case_is_judged_as_its_vector_says(vectors: Vectors, request: pytest.FixtureRequest) -> None:
    rows: dict[str, VectorRow] = request.config.stash[VECTOR_ROWS]
    for file, evaluator, count in vectors.not_here:
        rows.setdefault(file, VectorRow()).not_applicable[evaluator] = count
    wrong = []
    for file, case in vectors.cases:
        found = judge_case(case).to_json()
        mistakes = _mistakes(case, found)
        row = rows.setdefault(file, VectorRow())
        row.count(case["level"], not mistakes)
        if mistakes and case["level"] == "informative":
            row.differing.append(f"{case['id']}: {', '.join(mistakes)}")
        elif mistakes:
            wrong.append(f"{file}, {case['id']}: {'; '.join(mistakes)} in {found}")
    assert vectors.cases
    assert wrong == []


def test_a_batch_answers_every_case_in_its_order(vectors: Vectors) -> None:
    cases = [case for _, case in vectors.cases]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    result = CliRunner().invoke(main, ["evaluate", "--batch", "-"], input=lines)
    assert result.exit_code == 0
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [case["id"] for case in cases]
    wrong = [
        case["id"]
        for case, answer in zip(cases, answers, strict=True)
        if case["level"] != "informative" and _mistakes(case, answer)
    ]
    assert wrong == []


def test_our_own_vectors_are_all_of_evaluators_we_have() -> None:
    own = _read(OWN_VECTORS)
    assert own.not_here == []
    assert Counter(case["evaluator"] for _, case in own.cases) == {
        "tool_call_order": 40,
        "tool_call_args": 51,
        "tool_call_output": 40,
        "tool_call_count": 29,
        "tool_call_accuracy_f1": 44,
        "score_interpretation": 5,
        "tool_selection": 5,
        "param_accuracy": 4,
        "overall_score": 3,
        "tool_case": 2,
        "multi_turn": 3,
        "abstention": 2,
        "schema_validation": 2,
        "exact_match": 3,
        "contains": 2,
        "json_similarity": 3,
        "loop_repetition": 3,
        "tool_permission": 3,
        "ragas_tool_call_accuracy": 2,
        "ragas_tool_call_f1": 2,
        "trajectory": 5,
        "args_schema": 3,
        "budget": 2,
    }


def test_a_wrong_answer_is_noticed() -> None:
    case = {"expected_score": 0.5, "expected_details": {"lcs_length": 1}}
    assert _mistakes(case, {"outcome": "fail", "score": 0.25, "details": {"lcs_length": 2}, "error": None}) == [
        "score 0.25 instead of 0.5",
        "lcs_length 2 instead of 1",
    ]
    assert _mistakes({"expected_error": "no_criteria"}, {"outcome": "pass", "score": 1.0, "error": None}) == [
        "error None instead of no_criteria"
    ]


def _mistakes(case: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """How an answer differs from what the vector says."""
    if (label := case.get("expected_error")) is not None:
        error = found["error"]
        return [] if error is not None and error["type"] == label else [f"error {error} instead of {label}"]
    mistakes = []
    expected = case.get("unified_score", case.get("expected_score"))
    if {"unified_score", "expected_score"} & case.keys() and not _is_score(expected, found):
        mistakes.append(f"score {found['score']} instead of {expected}")
    # The details of a case that is told in our words are those of the other system.
    for key, value in case.get("expected_details", {}).items() if "unified" not in case else ():
        actual = found["details"].get("lcs" if key == "lcs_any_of" else key)
        if not (actual in value if key == "lcs_any_of" else actual == value):
            mistakes.append(f"{key} {actual} instead of {value}")
    return mistakes


def _is_score(expected: float | None, found: dict[str, Any]) -> bool:
    if expected is None:
        return found["score"] is None and found["outcome"] == "not_evaluable"
    # Some sources round to four decimals; their vectors end there.
    tolerance = 1e-4 if round(expected, 4) == expected and len(str(expected)) == len("0.1234") else 1e-9
    return found["score"] is not None and abs(found["score"] - expected) <= tolerance
