"""An evaluator in a file beside the rule: when it runs, what it may be, and what is said of one that cannot be used."""

import os
import re
import sys
from pathlib import Path

import pytest

from build import each
from build.code_files import EVALUATOR, changed, judged, trace_of, write_rule
from tracegrade.document.document import Document
from tracegrade.document.problem import FileError
from tracegrade.document.validate import validate
from tracegrade.judge import judge
from tracegrade.rule import code_files, evaluator_file
from tracegrade.rule.explained import explained
from tracegrade.rule.load import load_rules, rules_stamp
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

PAGE = (Path(__file__).parents[2] / "docs" / "extend" / "evaluator.md").read_text(encoding="utf-8")
PAGE = PAGE[PAGE.index("## In a file beside the rule") :]


def load(*paths: Path) -> RuleSet:
    return load_rules(paths, allow_code=True)


def refused(*paths: Path, allow_code: bool = True) -> str:
    with pytest.raises(FileError) as raised:
        load_rules(paths, allow_code=allow_code)
    (problem,) = raised.value.problems
    return str(problem)


def only_hash(*paths: Path) -> str:
    (rule,) = load(*paths).rules
    return rule.hash


def test_it_judges_under_its_own_name(tmp_path: Path) -> None:
    write_rule(tmp_path)
    (few,) = judged(load(tmp_path), calls=1)
    assert (few.evaluator, few.evaluation, few.outcome, few.details) == ("few-calls", "few-calls", "pass", {"calls": 1})
    (many,) = judged(load(tmp_path), calls=3)
    assert (many.outcome, many.explanation) == ("fail", "There were 3 calls.")


def test_the_example_judges(tmp_path: Path) -> None:
    """As the page says it, file by file."""
    ((file, source),) = re.findall(r"`rules/(\S+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL)
    ((rule_file, rule),) = re.findall(r"`rules/(\S+\.yaml)` names.*?```yaml\n(id: .*?)```", PAGE, re.DOTALL)
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(source)
    (tmp_path / rule_file).write_text(rule)
    numbers = ["GB82 WEST 1234 5698 7654 32", "DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130 01", "-"]
    (found,) = judge(trace_of(*({"iban": number} for number in numbers)), load(tmp_path)).evaluations
    assert (found.evaluator, found.score, found.explanation) == ("valid-iban", 0.5, "2 of 4 numbers are valid.")


def test_nothing_of_it_runs_unless_that_is_allowed(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    path = write_rule(tmp_path, f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n{EVALUATOR}")
    said = refused(tmp_path, allow_code=False)
    assert said.startswith(f"{path}:3:5: evaluate[0].evaluator: ./few_calls.py is code, ")
    assert "'rules.allow_code: true'" in said
    assert "found false" in said
    assert not mark.exists()
    load(tmp_path)
    assert mark.exists()


def test_it_runs_for_no_rule_that_is_not_a_file() -> None:
    written = Document("the rule", {"id": "few", "evaluate": [{"evaluator": "./few_calls.py", "most": 1}]})
    with pytest.raises(FileError, match="never for a rule that was sent, stored or imported"):
        validate(written, Rule)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        pytest.param("few_calls.py", "a file beside the rule such as ./amounts.py", id="without a dot"),
        pytest.param("/etc/few_calls.py", "found '/etc/few_calls.py'", id="absolute"),
        pytest.param("./few calls.py", "lower-case words joined by '_'", id="with a space"),
        pytest.param("./FewCalls.py", "lower-case words joined by '_'", id="with capitals"),
        pytest.param("./few_calls.txt", "a file beside the rule such as ./amounts.py", id="other ending"),
        pytest.param("../few_calls.py", "which is outside of the folder of rules", id="above the folder"),
        pytest.param("./../../few_calls.py", "../../few_calls.py leads to", id="far above"),
        pytest.param("./none.py", "./none.py: there is no file", id="missing"),
        pytest.param("./folder.py", "./folder.py: not a file but a folder", id="folder"),
    ],
)
def test_a_path_that_names_no_file_in_the_folder_is_refused(tmp_path: Path, file: str, said: str) -> None:
    folder = tmp_path / "rules"
    (folder / "folder.py").mkdir(parents=True)
    (tmp_path / "few_calls.py").write_text(EVALUATOR)
    path = write_rule(folder, None, file=f"{file!r}")
    found = refused(folder)
    assert found.startswith(f"{path}:3:5: evaluate[0].evaluator: ")
    assert said in found


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(EVALUATOR)
    write_rule(tmp_path / "rules", None)
    (tmp_path / "rules" / "few_calls.py").symlink_to(tmp_path / "outside.py")
    assert f"leads to {tmp_path / 'outside.py'}, which is outside" in refused(tmp_path / "rules")


def test_a_file_elsewhere_in_the_folder_of_rules_is_found(tmp_path: Path) -> None:
    """Of a rule that is named by its own file, that is the folder it lies in."""
    (tmp_path / "few_calls.py").write_text(EVALUATOR)
    path = write_rule(tmp_path / "calls", None, file="../few_calls.py")
    assert len(judged(load(tmp_path))) == 1
    assert "outside of the folder of rules" in refused(path)
    assert len(judged(load(path, tmp_path))) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    write_rule(tmp_path, None)
    os.mkfifo(tmp_path / "few_calls.py")
    assert "not a file but a folder, a pipe or a device" in refused(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_files, "MAX_BYTES", 100)
    write_rule(tmp_path)
    assert "./few_calls.py: larger than 100 bytes" in refused(tmp_path)


BROKEN = [
    pytest.param("x = (\n", ":1:5: SyntaxError: '(' was never closed", id="syntax"),
    pytest.param("\n\nimport nowhere\n", ":3: cannot be loaded: ModuleNotFoundError: ", id="import"),
    pytest.param("from . import x\n", ":1: cannot be loaded: ImportError: ", id="a file of its own folder"),
    pytest.param("\nraise SystemExit(3)\n", ":2: cannot be loaded: SystemExit: 3", id="exit"),
    pytest.param("x = '\0'", "null bytes", id="null bytes"),
    pytest.param("x = 1\n", ": no EVALUATOR in it; expected EVALUATOR = Evaluator(", id="none"),
    pytest.param("\nEVALUATOR = len\n", ":2: EVALUATOR: expected tracegrade.evaluate.evaluator.Evaluator, ", id="kind"),
    pytest.param(
        changed('"few-calls"', '"few"'),
        ":23: EVALUATOR: name: expected 'few-calls', as the file is called, found 'few'",
        id="name",
    ),
    pytest.param(changed("most: int", "threshold: int"), "'threshold' is a field of every item", id="contract"),
    pytest.param(
        changed("score=score)", "score=score, never_scores=lambda criteria, settings: criteria.least)"),
        ":23: AttributeError: 'Criteria' object has no attribute 'least'",
        id="error while the item is read",
    ),
    pytest.param(
        changed("score=score)", "score=score, attributes_of=lambda criteria: ['a'])"),
        "./few_calls.py: attributes_of: expected a frozenset of non-empty texts, found ['a']",
        id="attributes",
    ),
    pytest.param(
        changed("score=score)", "score=score, sentences=lambda criteria, settings: 'one')"),
        "./few_calls.py: sentences: expected a list of texts, found 'one'",
        id="sentences",
    ),
    pytest.param(
        changed("score=score)", "score=score, expected_calls=lambda criteria, settings: ['pay'])"),
        "./few_calls.py: expected_calls: expected tracegrade.evaluate.compare.expected_calls.ExpectedCalls",
        id="expected calls",
    ),
]


@each(("source", "said"), BROKEN)
def test_a_file_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, source: str, said: str) -> None:
    path = write_rule(tmp_path, source)
    found = refused(tmp_path)
    assert found.startswith(f"{path}:3:5: evaluate[0].evaluator: ./few_calls.py")
    assert said in found


ENDLESS = [
    pytest.param("\nwhile True:\n    pass\n", id="while it is loaded"),
    pytest.param("\nwhile True:\n    try: x = 1\n    except Exception: pass\n", id="though it catches what it can"),
    pytest.param(
        changed(
            "    most: int",
            '    most: int\n\n    @field_validator("most")\n    def check(cls, value):\n        while 1: x = 1',
        ).replace("from tracegrade", "from pydantic import field_validator\nfrom tracegrade", 1),
        id="while an item is read",
    ),
]


@pytest.mark.parametrize("source", ENDLESS)
def test_a_file_without_end_is_refused(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator_file, "MOST_LINES", 10_000)
    tracing = sys.gettrace()
    write_rule(tmp_path, source)
    assert re.search(r"\./few_calls\.py:\d+: .*it has not ended after 10,000 of its lines$", refused(tmp_path))
    write_rule(tmp_path, "x = 1\n" + EVALUATOR)
    load(tmp_path)
    assert sys.gettrace() is tracing


def test_it_is_not_called_as_one_that_is_there(tmp_path: Path) -> None:
    write_rule(tmp_path, changed('"few-calls"', '"budget"'), file="./budget.py")
    assert "./budget.py:23: EVALUATOR: the name 'budget' is taken by an evaluator that TraceGrade has" in refused(
        tmp_path
    )


def test_a_mistake_in_the_item_is_said_as_of_any_evaluator(tmp_path: Path) -> None:
    path = write_rule(tmp_path)
    path.write_text(path.read_text().replace("most: 1", "mst: 1"))
    with pytest.raises(FileError) as raised:
        load(tmp_path)
    assert "unknown key 'mst'; did you mean 'most'?" in str(raised.value)


def test_an_error_in_it_is_named_with_its_line_and_takes_nothing_along(tmp_path: Path) -> None:
    write_rule(tmp_path / "broken", changed("found = len(evidence.calls)", "found = evidence.cals"), id="broken")
    write_rule(tmp_path / "other", changed('f"There', '3 or f"There'), id="other")
    write_rule(tmp_path / "whole", id="whole")
    broken, other, whole = judged(load(tmp_path), calls=1)
    assert (broken.outcome, other.outcome, whole.outcome) == ("error", "error", "pass")
    assert broken.reason == "AttributeError: 'Evidence' object has no attribute 'cals' (./few_calls.py:19)"
    assert other.reason == "ScoreError: few-calls: explanation: expected a text, found int (./few_calls.py)"


def test_its_bytes_are_part_of_the_hash_and_its_place_is_not(tmp_path: Path) -> None:
    first, moved, commented = (write_rule(tmp_path / name) for name in ("first", "moved", "commented"))
    (tmp_path / "commented" / "few_calls.py").write_text(EVALUATOR + "# a comment\n")
    assert only_hash(first) == only_hash(moved) != only_hash(commented)
    texts = [load(path).rules[0].text_hash for path in (first, moved, commented)]
    assert texts[0] == texts[1] != texts[2]


def test_which_item_names_which_file_is_part_of_the_hash(tmp_path: Path) -> None:
    """Also where the evaluators of both have one name, and cases share the names of evaluations."""
    for folder, source in (("a", EVALUATOR), ("b", EVALUATOR + "# other\n")):
        write_rule(tmp_path / folder, source)
        (tmp_path / folder / "rule.yaml").unlink()
    hashes = []
    for first, second in (("a", "b"), ("b", "a"), ("a", "b")):
        cases = [
            f"{{id: {case}, match: {{prompt: {case}}}, evaluator: ./{folder}/few_calls.py, most: 1}}"
            for case, folder in (("x", first), ("y", second))
        ]
        (tmp_path / "rule.yaml").write_text(f"id: few\ncases: [{', '.join(cases)}]\n")
        hashes.append(only_hash(tmp_path))
    assert hashes[0] == hashes[2] != hashes[1]


def test_two_files_of_one_name_have_nothing_in_common(tmp_path: Path) -> None:
    write_rule(tmp_path / "a", id="a")
    write_rule(tmp_path / "b", changed("most: int", "least: int = 0\n    most: int"), id="b")
    (tmp_path / "b" / "rule.yaml").write_text((tmp_path / "b" / "rule.yaml").read_text() + "    least: 5\n")
    first, second = load(tmp_path).rules
    assert first.evaluate[0].evaluator.name == second.evaluate[0].evaluator.name == "few-calls"
    assert [type(rule.evaluate[0].criteria).model_fields.keys() for rule in (first, second)] == [
        {"most"},
        {"least", "most"},
    ]
    assert second.judgement["evaluate"][0]["least"] == 5


def test_what_either_of_two_files_of_one_name_reads_is_read(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_rule(
            tmp_path / name, changed("score=score)", f"score=score, attributes=frozenset({{'own.{name}'}}))"), id=name
        )
    assert load(tmp_path).attributes_read >= {"own.a", "own.b"}


def test_what_it_says_of_the_criteria_is_asked_once(tmp_path: Path) -> None:
    """When the rule is read: a page that shows the rule runs nothing of the file."""
    says = "score=score, sentences=lambda criteria, settings: (ASKED.append(1), [f'At most {criteria.most}.'])[1])"
    write_rule(tmp_path, "ASKED = []\n" + changed("score=score)", says))
    (rule,) = load(tmp_path).rules
    (spec,) = rule.evaluate
    for _ in range(2):
        assert "    - At most 1." in explained(rule, "rule.yaml")
    asked = sys.modules[type(spec.criteria).__module__].ASKED
    assert asked == [1]


def test_what_was_read_before_a_change_judges_as_before(tmp_path: Path) -> None:
    write_rule(tmp_path)
    before = load(tmp_path)
    write_rule(tmp_path, changed("found <= criteria.most", "found > criteria.most"))
    after = load(tmp_path)
    assert [judged(rule_set)[0].outcome for rule_set in (before, after)] == ["fail", "pass"]


def test_a_file_runs_once_for_each_content(tmp_path: Path) -> None:
    count = tmp_path / "count"
    write_rule(tmp_path, f"with open({str(count)!r}, 'a') as file:\n    file.write('x')\n{EVALUATOR}")
    for _ in range(3):
        load(tmp_path)
    assert count.read_text() == "x"


def test_models_and_dataclasses_find_their_names(tmp_path: Path) -> None:
    """Both look for the module that they are of."""
    head = '"""few-calls: are there at most so many calls?"""\n'
    postponed = changed(head, "from __future__ import annotations\nfrom dataclasses import dataclass, KW_ONLY\n")
    kept = "@dataclass\nclass Kept:\n    _: KW_ONLY\n    most: Most = 1\n\n\nclass Most(int): ...\n\n\nclass Criteria"
    write_rule(tmp_path, postponed.replace("class Criteria", kept, 1))
    assert judged(load(tmp_path), calls=1)[0].outcome == "pass"


def test_a_case_may_name_one(tmp_path: Path) -> None:
    write_rule(tmp_path)
    case = "cases:\n  - {id: x, match: {prompt: hello}, evaluator: ./few_calls.py, most: 1}\n"
    (tmp_path / "rule.yaml").write_text(f"id: few\n{case}")
    (rule,) = load(tmp_path).rules
    assert rule.cases is not None
    assert rule.cases.all[0].spec.evaluator.name == "few-calls"
    assert list(rule.files) == ["./few_calls.py"]


def test_the_stamp_changes_when_the_file_is_written_comes_or_goes(tmp_path: Path) -> None:
    path = write_rule(tmp_path, None)
    stamps = [rules_stamp([path], allow_code=True)]
    for text in ("x = 1\n", "x = 12\n"):
        (tmp_path / "few_calls.py").write_text(text)
        stamps.append(rules_stamp([path], allow_code=True))
    assert rules_stamp([path], allow_code=True) == stamps[-1]
    (tmp_path / "few_calls.py").unlink()
    assert rules_stamp([path], allow_code=True) == stamps[0]
    assert len(set(stamps)) == 3


def test_where_no_code_may_run_only_rule_files_are_looked_at(tmp_path: Path) -> None:
    path = write_rule(tmp_path)
    before = rules_stamp([path])
    (tmp_path / "few_calls.py").write_text("x = 1\n")
    assert rules_stamp([path]) == before
