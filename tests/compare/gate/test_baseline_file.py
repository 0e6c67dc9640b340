import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import each
from tracegrade.compare.collected import Place, Unit
from tracegrade.compare.gate.baseline_file import (
    FORMAT,
    MOST_NAMES,
    VERSION,
    SavedBaseline,
    baseline_text,
    read_baseline,
    saved_rules,
)
from tracegrade.compare.gate.results import Results
from tracegrade.compare.pairing import difference_of
from tracegrade.compare.tally import RuleTallies
from tracegrade.document.problem import FileError
from tracegrade.model.errors import NotPossible
from tracegrade.model.tally import Tally, total

KEY = ("refunds", "hash-1")


def unit(number: int, passed: bool, **changes: Any) -> Unit:
    session = changes.pop("session", None)
    place = Place("default", number.to_bytes(16), session or number.to_bytes(16))
    known = {"subject": f"1/{number}", "case": None, "prompt": None, "probability": 1.0}
    return Unit(place, passed=passed, **(known | changes))


def tally_of(units: list[Unit], **others: Any) -> Tally:
    counted = total(Tally.one("pass" if one.passed else "fail", one.probability) for one in units)
    return counted.plus(Tally(**others))


def results_of(units: list[Unit], kept: float = 1.0, **others: Any) -> Results:
    found = defaultdict(list, {(*KEY, ""): units})
    return Results({KEY: RuleTallies(tally_of(units, **others), kept=kept)}, found, levels={"refunds": "high"})


def saved(results: Results, **changes: Any) -> SavedBaseline:
    known: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": "main",
        "source": "traces",
        "saved": "2026-11-23 10:00:00",
        "tracegrade": "0.1.0",
        "rules": saved_rules(results),
    }
    return SavedBaseline(**(known | changes))


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "main.json"
    path.write_text(text)
    return path


UNITS = st.lists(
    st.builds(
        lambda number, passed, session, case, prompt, probability: unit(
            number, passed, session=session, case=case, prompt=prompt, probability=probability
        ),
        st.integers(0, 30),
        st.booleans(),
        st.sampled_from([None, None, "a", "b", "c"]),
        st.sampled_from([None, "paris", "rome"]),
        st.sampled_from([None, "agent 1", "agent 2", "agent 3"]),
        st.sampled_from([1.0, 0.25]),
    ),
    min_size=1,
    max_size=40,
)


@given(UNITS, UNITS)
def test_what_is_read_compares_as_what_was_saved(a: list[Unit], b: list[Unit]) -> None:
    others = [one._replace(place=one.place._replace(trace_id=b"x" + one.place.trace_id[1:])) for one in b]
    results = saved(results_of(a)).results
    units, whole = results.units[*KEY, ""], results.of(*KEY)
    assert (whole.passed, whole.failed) == (sum(one.passed for one in a), sum(not one.passed for one in a))
    ours = difference_of(units, others, whole, tally_of(others), 79)
    theirs = difference_of(a, others, tally_of(a), tally_of(others), 79)
    assert ours.reason == theirs.reason
    assert ours.clustered_by == theirs.clustered_by
    if theirs.difference is None or ours.difference is None:
        assert theirs.difference is ours.difference
        return
    assert ours.difference.method == theirs.difference.method
    for name in ("value", "low", "high", "p"):
        assert getattr(ours.difference, name) == pytest.approx(getattr(theirs.difference, name))
    assert (ours.pairs is None) is (theirs.pairs is None)
    if ours.pairs is not None and theirs.pairs is not None:
        numbers = ("by", "count", "worse", "better", "unpaired_a", "unpaired_b", "flaky")
        assert [getattr(ours.pairs, name) for name in numbers] == [getattr(theirs.pairs, name) for name in numbers]


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    units = [unit(1, True, case="paris"), unit(2, False, session="s"), unit(3, True, session="s")]
    others = {"not_evaluable": 3, "all_not_evaluable": 3.0, "errors": 1, "all_errors": 1.0, "other_squares": 4.0}
    before = saved(results_of(units, 0.5, incomplete=2, **others), git_revision="abc")
    after = read_baseline(written(tmp_path, baseline_text(before)))
    assert baseline_text(after) == baseline_text(before)
    assert after.results.tallies[KEY] == RuleTallies(tally_of(units, incomplete=2, **others), kept=0.5)
    assert after.git_revision == "abc"


def test_the_text_is_the_same_in_any_order_with_a_line_for_what_is_alike() -> None:
    units = [unit(number, number > 2, case=f"case {number % 2}") for number in range(10)]
    text = baseline_text(saved(results_of(units)))
    assert text == baseline_text(saved(results_of(units[::-1])))
    lines = [line.strip().rstrip(",") for line in text.splitlines() if '"results"' in line]
    assert (
        lines
        == sorted(lines)
        == [
            '{"results": [{"case": "case 0", "fail": 1}], "times": 2}',
            '{"results": [{"case": "case 0", "pass": 1}], "times": 3}',
            '{"results": [{"case": "case 1", "fail": 1}]}',
            '{"results": [{"case": "case 1", "pass": 1}], "times": 4}',
        ]
    )
    keys = list(json.loads(text))
    assert keys == sorted(keys)


def test_no_id_of_a_trace_or_session_is_saved() -> None:
    text = baseline_text(saved(results_of([unit(0xABCDEF, True, session="user-7"), unit(2, True, session="user-7")])))
    assert "user-7" not in text
    assert "abcdef" not in text
    assert '{"results": [{"pass": 2}], "together": "session"}' in text


@pytest.mark.parametrize(("named", "kept"), [(MOST_NAMES, True), (MOST_NAMES + 1, False)])
def test_many_prompts_are_not_saved(named: int, kept: bool) -> None:
    units = [unit(number, True, prompt=f"agent {number}", case="one") for number in range(named)]
    text = baseline_text(saved(results_of(units)))
    assert ("agent 7" in text) is kept
    assert '"case": "one"' in text


def test_rules_that_matched_nothing_are_left_out() -> None:
    results = results_of([unit(1, True)])
    results.tallies["other", "hash"] = RuleTallies()
    assert list(saved_rules(results)) == ["refunds"]


def test_a_run_alone_is_named() -> None:
    text = baseline_text(saved(Results(), run="prompts/1"))
    assert json.loads(text)["run"] == "prompts/1"
    assert '"rules"' not in text


GOOD = json.loads(baseline_text(saved(results_of([unit(1, True), unit(2, False)]))))


@each(
    ("content", "said"),
    [
        ("{", "main.json:1:2: not YAML"),
        ("[]", "main.json:1:1: no saved baseline: expected 'format': 'tracegrade baseline'"),
        ('{"format": "other"}', "main.json:1:1: no saved baseline"),
        (json.dumps(GOOD | {"name": 7}), "name: expected"),
        (json.dumps(GOOD | {"nmae": "x"}), "unknown key 'nmae'; did you mean 'name'?"),
        (json.dumps(GOOD).replace('"pass": 1, "pass_rate"', '"pass": 2, "pass_rate"'), "1 passes and 1 fails, and"),
        (json.dumps(GOOD).replace('"fail": 1}]}', '"fail": 1}], "times": 1000000000000}'), "save the baseline again"),
        ("<<<<<<< ours\n" + json.dumps(GOOD), "main.json:"),
    ],
)
def test_what_is_no_baseline_is_refused_with_its_place(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(FileError) as raised:
        read_baseline(written(tmp_path, content))
    assert said in str(raised.value)


def test_another_version_of_the_format_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(GOOD | {"version": 2, "rules": "of another form"}))
    with pytest.raises(NotPossible) as raised:
        read_baseline(path)
    assert str(raised.value) == (
        f"{path}: the baseline has the format version 2, and this TraceGrade reads 1: save it again"
    )


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_baseline(tmp_path / "main.json")
