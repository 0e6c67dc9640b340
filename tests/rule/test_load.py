import os
import shutil
from pathlib import Path

import pytest

from build import each
from tracegrade.document.problem import FileError
from tracegrade.rule.load import builtin_rules, load_rules
from tracegrade.rule.rule_set import RuleSet
from tracegrade.rule.warnings import costs_not_known

MISTAKES = sorted((Path(__file__).parent / "mistakes").glob("*.yaml"))

RULE = """\
id: {id}
evaluate:
  - {{evaluator: tool-call-order, tool_calls_order: [a, b]}}
"""


def write(path: Path, rule_id: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(RULE.format(id=rule_id))
    return path


def ids(*paths: str | Path) -> list[str]:
    return [rule.id for rule in load_rules(paths).rules]


def problems(*paths: str | Path) -> list[str]:
    with pytest.raises(FileError) as raised:
        load_rules(paths)
    return [str(problem) for problem in raised.value.problems]


@each("path", MISTAKES, ids=lambda path: path.stem)
def test_each_kind_of_mistake_is_named_with_its_line_and_column(path: Path) -> None:
    """The messages expected stand in the file's first lines, after ``#!``."""
    expected = [f"{path}:{line[3:]}" for line in path.read_text().splitlines() if line.startswith("#! ")]
    assert expected
    assert problems(path) == expected


def test_mistakes_of_all_files_are_reported_together(tmp_path: Path) -> None:
    for name in ("unknown_level", "duplicate_key"):
        shutil.copy(MISTAKES[0].with_name(f"{name}.yaml"), tmp_path / f"{name}.rule.yaml")
    write(tmp_path / "good.rule.yaml", "good")
    found = problems(tmp_path)
    assert [problem.removeprefix(f"{tmp_path}/").partition(":")[0] for problem in found] == [
        "duplicate_key.rule.yaml",
        "unknown_level.rule.yaml",
    ]


def test_a_file_of_any_name_is_a_rule(tmp_path: Path) -> None:
    assert ids(write(tmp_path / "anything.yml", "one")) == ["one"]


def test_in_a_folder_only_files_named_as_rules_count_at_any_depth(tmp_path: Path) -> None:
    write(tmp_path / "rule.yaml", "top")
    write(tmp_path / "ordering" / "deep" / "rule.yaml", "deep")
    write(tmp_path / "named.rule.yaml", "named")
    write(tmp_path / "tests.yaml", "not-a-rule")
    write(tmp_path / "other-rule.yaml", "not-this-either")
    assert ids(tmp_path) == ["deep", "named", "top"]


def test_a_kubernetes_volume_shows_each_rule_once(tmp_path: Path) -> None:
    write(tmp_path / "..2026_11_21" / "one.rule.yaml", "one")
    (tmp_path / "..data").symlink_to("..2026_11_21")
    (tmp_path / "one.rule.yaml").symlink_to("..data/one.rule.yaml")
    assert ids(tmp_path) == ["one"]


def test_hidden_folders_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "one" / "rule.yaml", "one")
    write(tmp_path / ".drafts" / "two" / "rule.yaml", "two")
    assert ids(tmp_path) == ["one"]


def test_a_file_reached_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "one" / "rule.yaml", "one")
    (tmp_path / "link.rule.yaml").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    assert ids(tmp_path, path, Path("one"), "one/rule.yaml") == ["one"]


def test_a_link_out_of_a_folder_is_refused_and_nothing_of_its_target_is_shown(tmp_path: Path) -> None:
    outside = tmp_path / "passwd"
    outside.write_text("root:x:0:0:root:/root\nevil: [\n")
    inside = write(tmp_path / "rules" / "one.rule.yaml", "one").parent
    (inside / "two.rule.yaml").symlink_to(outside)
    (found,) = problems(inside)
    assert found.startswith(f"{inside}/two.rule.yaml:1:1: a link to {outside}, which is outside this folder; expected")
    assert "root" not in found.removeprefix(f"{inside}").partition(str(outside))[2]
    outside.write_text(RULE.format(id="two"))
    assert ids(inside / "two.rule.yaml") == ["two"]  # whoever names it may read it


def test_a_pipe_among_the_rules_holds_up_nobody(tmp_path: Path) -> None:
    write(tmp_path / "one.rule.yaml", "one")
    os.mkfifo(tmp_path / "two.rule.yaml")
    (found,) = problems(tmp_path)
    assert found.startswith(f"{tmp_path}/two.rule.yaml:1:1: not a file but a pipe")


def test_two_rules_of_one_id_are_refused_naming_both(tmp_path: Path) -> None:
    first = write(tmp_path / "a.rule.yaml", "same")
    second = write(tmp_path / "b.rule.yaml", "same")
    assert problems(tmp_path) == [f"{second}:1:1: id: 'same' is the id of {first}:1 already; ids are unique"]


def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert problems(missing) == [
        f"{missing}: no such file or folder; expected a rule file, a folder of them, or builtin:NAME"
    ]


def test_a_folder_without_rules_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path) == [f"{tmp_path}: no rule in this folder; rule.yaml and *.rule.yaml count, at any depth"]


def test_no_paths_are_no_rules() -> None:
    assert load_rules([]).rules == ()


def test_a_builtin_name_is_a_ready_made_rule_or_a_folder_of_them() -> None:
    demo = ids("builtin:demo")
    assert "order-steps-out-of-order" in demo
    assert len(demo) > 1
    assert ids("builtin:order-steps-out-of-order") == ["order-steps-out-of-order"]
    assert ids("builtin:demo/order-steps-out-of-order") == ["order-steps-out-of-order"]


@each("name", ["order-steps-out-of-ordr", "", "..", "/etc", "demo/traces"])
def test_an_unknown_builtin_name_is_refused(name: str) -> None:
    [problem] = problems(f"builtin:{name}")
    assert problem.startswith(f"builtin:{name}: no such ready-made rule or folder")


def test_a_near_builtin_name_is_proposed() -> None:
    [problem] = problems("builtin:order-steps-out-of-ordr")
    assert problem.endswith("did you mean 'order-steps-out-of-order'?")


def test_the_rule_set_knows_where_each_rule_came_from(tmp_path: Path) -> None:
    path = write(tmp_path / "one.rule.yaml", "one")
    assert load_rules([path]).paths == {"one": str(path)}


def test_what_is_found_later_has_its_place_without_the_file_being_read_again(tmp_path: Path) -> None:
    text = "id: {}\nevaluate:\n- evaluator: budget\n  max_cost: 1\n"
    files = [tmp_path / name for name in ("z.rule.yaml", "a.rule.yaml")]
    for file, rule_id in zip(files, ("first", "second"), strict=True):
        file.write_text(text.format(rule_id))
    rule_set = load_rules(files)
    for file in files:
        file.unlink()
    found = [str(problem).partition(": costs")[0] for problem in rule_set.placed(costs_not_known)]
    assert found == [f"{file}:4:3: evaluate[0].max_cost" for file in files]
    assert rule_set.only(["second"]).placed(costs_not_known) == rule_set.placed(costs_not_known)[1:]
    assert RuleSet(rule_set.rules).placed(costs_not_known) == []  # rules from no file


def test_builtin_rules_is_the_folder_that_holds_the_demo() -> None:
    assert (builtin_rules() / "demo").is_dir()


def test_a_rule_in_a_folder_that_is_named_otherwise_is_warned_of(tmp_path: Path) -> None:
    text = 'id: refund-order\nevaluate:\n  - {evaluator: tool-call-count, tool_calls_count: {pay: ["<=", 1]}}\n'
    (tmp_path / "rule.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "policy.yml").write_text(text.replace("refund-order", "policy"), encoding="utf-8")
    (tmp_path / "tests.yaml").write_text("- {id: x}\n", encoding="utf-8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "other.yaml").write_text(text, encoding="utf-8")
    (warning,) = load_rules([tmp_path]).warnings
    where, what = f"{tmp_path / 'policy.yml'}:1:1", "looks like a rule, but is not read"
    assert str(warning) == f"{where}: {what}: in a folder, rule.yaml and *.rule.yaml count"
    both = load_rules([tmp_path, tmp_path / "policy.yml"])
    assert (len(both), both.warnings) == (2, [])
