"""The comparison of two recorded files: what it counts, and what it calls a difference."""

import gzip
import json
from pathlib import Path
from typing import Any

from system.judgements.compared import Differences, compared
from system.judgements.made_rules import EVALUATORS as DRAWN
from system.judgements.recorded import lines_of
from tracegrade.evaluate.registry import EVALUATORS

JUDGED: dict[str, Any] = {"evaluation": "order", "evaluator": "tool-call-order", "case": None, "id": "1"}
DECISION: dict[str, Any] = {
    "source": "made 0",
    "trace": "01",
    "rule": "r",
    "subject": ["agent", "a"],
    "outcome": "pass",
}


def written(folder: Path, name: str, decision: dict[str, Any], **evaluation: Any) -> Path:
    path = folder / name
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps({**DECISION, **decision, "evaluations": [{**JUDGED, **evaluation}]}) + "\n")
    return path


def differences(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> Differences:
    return compared(written(folder, "before", {}, **before), written(folder, "after", {}, **after))


def test_every_evaluator_is_drawn() -> None:
    assert set(DRAWN) == set(EVALUATORS)


def test_the_same_is_made_and_judged_each_time() -> None:
    lines = lines_of(("made", "0"))
    assert len(lines) > 500
    assert lines_of(("made", "0")) == lines


def test_another_score_is_a_difference_with_its_place(tmp_path: Path) -> None:
    found = differences(tmp_path, {"outcome": "fail", "score": 0.5}, {"outcome": "fail", "score": 0.25})
    assert dict(found.others) == {"tool-call-order: score": 1}
    assert "rule r" in found.examples["tool-call-order: score"][0]


def test_other_words_are_counted_apart(tmp_path: Path) -> None:
    found = differences(tmp_path, {"explanation": "One."}, {"explanation": "Two."})
    assert (dict(found.words), dict(found.others)) == ({"tool-call-order: explanation": 1}, {})


def test_what_could_not_be_evaluated_before_is_counted_as_judged(tmp_path: Path) -> None:
    before, after = {"outcome": "not_evaluable", "score": None}, {"outcome": "pass", "score": 1.0}
    found = differences(tmp_path, before, after)
    assert (dict(found.decided), dict(found.others)) == ({"tool-call-order": 1}, {})
    back = differences(tmp_path, after, before)
    assert dict(back.others) == {"tool-call-order: outcome": 1, "tool-call-order: score": 1}


def test_what_is_judged_in_one_file_alone_is_a_difference(tmp_path: Path) -> None:
    found = compared(written(tmp_path, "before", {}), written(tmp_path, "after", {"rule": "another"}))
    assert dict(found.others) == {"only before": 1, "only after": 1}


def test_a_source_that_was_added_changes_no_other(tmp_path: Path) -> None:
    before, after = written(tmp_path, "before", {}), written(tmp_path, "after", {"source": "case 0"})
    after.write_bytes(after.read_bytes() + before.read_bytes())
    assert dict(compared(before, after).others) == {"only after": 1}
