"""Rules that change while traces are open, and rule files that change while the judge runs."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from build.code_files import EVALUATOR, changed
from build.code_files import write_rule as write_code_rule
from build.harness import records
from build.otlp import Content, agent_span, otlp_span, tool_span
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.config import RulesSettings
from tracegrade.model.errors import TraceGradeError
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.rule_sets import RuleSets
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.telemetry.metrics import Telemetry

RULE = """\
id: {id}
evaluate:
  - {{evaluator: tool-call-order, tool_calls_order: [a, b]}}
"""


def rule_set(rule_id: str, **fields: Any) -> RuleSet:
    evaluate = [{"evaluator": "tool-call-order", "tool_calls_order": ["create_order"]}]
    return RuleSet([Rule.model_validate({"id": rule_id, "evaluate": evaluate, **fields})])


def trace(number: int) -> list[Content]:
    return [agent_span(number, 1), tool_span(number, 2, 1, "create_order")]


class TestOpenTraces:
    settings = TracesSettings(settle="5s", idle_timeout="9s", max_age="20s", reopen_for="30s")

    def rules_of(self, judge: RecordJudge, batches: list[tuple[float, list[Content]]]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for record in records(batches):
            for judged in judge.read(record):
                number = int.from_bytes(judged.trace.trace_id, "big")
                found.setdefault(number, []).extend(d.pair.rule_id for d in judged.judgement.decisions)
        return found

    def test_a_trace_is_judged_by_the_rules_in_force_when_it_began(self) -> None:
        judge = RecordJudge(self.settings, rule_set("old"), ClosedTraces())
        assert self.rules_of(judge, [(0, trace(1)[:1])]) == {}
        judge.use(rule_set("new"))
        late = [(1, trace(1)[1:]), (1, trace(2)), (20, trace(3))]
        assert self.rules_of(judge, late) == {1: ["old"], 2: ["new"]}

    def test_a_trace_that_is_opened_again_keeps_its_rules(self) -> None:
        judge = RecordJudge(self.settings, rule_set("old"), ClosedTraces())
        self.rules_of(judge, [(0, trace(1)[:1])])
        judge.use(rule_set("new"))
        assert self.rules_of(judge, [(10, trace(9)), (12, trace(1)[1:]), (30, trace(8))])[1] == ["old", "old"]

    def test_an_edited_text_is_in_force_for_what_begins_after_it_and_opens_nothing(self) -> None:
        """The level is on each result: of an open trace, the one that was in force when it began (promise 3)."""
        before, after = rule_set("order", level="low"), rule_set("order", level="high", title="Said otherwise")
        assert before.judgement_hash == after.judgement_hash
        judge = RecordJudge(self.settings, before, ClosedTraces())
        found: list[tuple[int, int, str, str]] = []

        def read(batches: list[tuple[float, list[Content]]]) -> None:
            for record in records(batches):
                for judged in judge.read(record):
                    number = int.from_bytes(judged.trace.trace_id, "big")
                    pairs = [decision.pair for decision in judged.judgement.decisions]
                    found.extend((number, judged.trace.revision, pair.level, pair.rule_hash) for pair in pairs)

        read([(0, trace(1)), (1, trace(2)[:1])])
        judge.use(after)
        read([(2, trace(3)), (3, trace(2)[1:]), (20, [tool_span(1, 3, 1, "late")]), (40, trace(9))])
        rule_hash = before.rules[0].hash
        assert sorted(found) == [
            (1, 2, "low", rule_hash),
            (1, 3, "low", rule_hash),
            (2, 2, "low", rule_hash),
            (3, 2, "high", rule_hash),
        ]

    def test_what_comes_twice_is_known_though_other_attributes_are_read(self) -> None:
        judge = RecordJudge(self.settings, rule_set("old"), ClosedTraces())
        spans: list[Content] = [otlp_span(1, 1, None, tenant__tier="gold")]
        self.rules_of(judge, [(0, spans)])
        judge.use(rule_set("new", match={"attributes": {"tenant.tier": "gold"}}))
        self.rules_of(judge, [(1, spans), (20, trace(2))])
        assert judge.live.span_dispositions["duplicate", ""] == 1

    def test_rules_that_nobody_can_need_any_more_are_forgotten(self) -> None:
        known = RuleSets(self.settings, rule_set("old"))
        for number in range(10):
            known.use(rule_set(f"new-{number}"), number * 30 * 10**9)
        assert len(known.known()) == 3


class TestFiles:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        (tmp_path / "one.rule.yaml").write_text(RULE.format(id="one"))
        return tmp_path / "one.rule.yaml"

    def numbers(self, telemetry: Telemetry) -> dict[str, list[float]]:
        metrics = telemetry.snapshot()["metrics"]
        return {
            name.removeprefix("tracegrade.rules."): [value["value"] for value in values]
            for name, values in metrics.items()
            if name.startswith("tracegrade.rules.") and values
        }

    def test_a_changed_file_is_read_once(self, file: Path) -> None:
        telemetry = Telemetry("judge")
        reload = RuleReload(RulesSettings(paths=[str(file.parent)]), telemetry)
        assert reload.poll() is None
        file.write_text(RULE.format(id="changed"))
        found = reload.poll()
        assert found is not None
        assert [rule.id for rule in found.rules] == ["changed"]
        assert reload.poll() is None
        file.with_name("two.rule.yaml").write_text(RULE.format(id="two"))
        assert reload.poll() is reload.in_force
        assert self.numbers(telemetry) == {"loaded": [2], "refused": [0], "reloads": [2]}

    def test_files_that_are_swapped_while_they_are_read_are_read_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As the kubelet changes the files of a ConfigMap: all at once, by the link through which each is reached."""
        for name in ("first", "second", "third"):
            (tmp_path / f"..{name}").mkdir()
            for number in "ab":
                text = RULE.format(id=f"{name}-{number}")
                (tmp_path / f"..{name}" / f"{number}.rule.yaml").write_text(text)
        for number in "ab":
            (tmp_path / f"{number}.rule.yaml").symlink_to(f"..data/{number}.rule.yaml")
        swap_to = _swapped_after_one_is_read(tmp_path, monkeypatch)
        swap_to("first")
        swap_to("second", while_read=True)
        reload = RuleReload(RulesSettings(paths=[str(tmp_path)]), Telemetry("judge"))
        assert [rule.id for rule in reload.in_force.rules] == ["second-a", "second-b"]
        swap_to("first")
        swap_to("third", while_read=True)
        assert reload.poll() is not None
        assert [rule.id for rule in reload.in_force.rules] == ["third-a", "third-b"]

    def test_experimental_rules_are_named_for_whoever_alerts_elsewhere(self, file: Path) -> None:
        telemetry = Telemetry("judge")
        file.write_text(RULE.format(id="one") + "\nstatus: experimental\n")
        reload = RuleReload(RulesSettings(paths=[str(file.parent)]), telemetry)
        (rule,) = reload.in_force.rules
        assert telemetry.value("tracegrade.rules.experimental", rule="one", rule_hash=rule.hash[:8]) == 1
        file.write_text(RULE.format(id="one") + "\nstatus: stable\n")
        assert reload.poll() is not None
        assert telemetry.value("tracegrade.rules.experimental") == 0

    def test_a_wrong_file_leaves_the_rules_in_force(self, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        telemetry = Telemetry("judge")
        reload = RuleReload(RulesSettings(paths=[str(file.parent)]), telemetry)
        before = reload.in_force
        file.write_text("id: one\nevaluate: []\n")
        with caplog.at_level(logging.ERROR):
            assert reload.poll() is None
            assert reload.poll() is None
        [record] = caplog.records
        assert f"{file}:2:1: evaluate: expected a list of at least 1, found an empty list" in record.getMessage()
        assert reload.in_force is before
        assert self.numbers(telemetry) == {"loaded": [1], "refused": [1], "reloads": [1]}
        file.unlink()
        assert reload.poll() is None
        file.write_text(RULE.format(id="one"))
        assert reload.poll() is None, "they are what was in force all the time"
        assert self.numbers(telemetry)["refused"] == [0]

    def test_code_beside_a_rule_is_read_again_and_open_traces_keep_what_they_began_with(self, tmp_path: Path) -> None:
        write_code_rule(tmp_path)
        reload = RuleReload(RulesSettings(paths=[str(tmp_path)], allow_code=True), Telemetry("judge"))
        judge = RecordJudge(TestOpenTraces.settings, reload.in_force, ClosedTraces())
        found: dict[int, str] = {}

        def read(batches: list[tuple[float, list[Content]]]) -> None:
            for record in records(batches):
                for judged in judge.read(record):
                    (evaluation,) = judged.judgement.evaluations
                    found[int.from_bytes(judged.trace.trace_id, "big")] = evaluation.outcome

        read([(0, trace(1)[:1])])
        (tmp_path / "few_calls.py").write_text(changed("found <= criteria.most", "found > criteria.most"))
        after = reload.poll()
        assert after is not None
        judge.use(after)
        read([(1, trace(1)[1:]), (1, trace(2)), (20, trace(3))])
        assert found == {1: "pass", 2: "fail"}

    def test_wrong_code_leaves_the_rules_in_force_until_it_is_mended(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = write_code_rule(tmp_path)
        reload = RuleReload(RulesSettings(paths=[str(tmp_path)], allow_code=True), Telemetry("judge"))
        before = reload.in_force
        code = tmp_path / "few_calls.py"
        code.write_text("nowhere\n")
        assert reload.poll() is None
        assert f"{path}:3:5: evaluate[0].evaluator: ./few_calls.py:1: cannot be loaded: NameError" in caplog.text
        code.unlink()
        assert reload.poll() is None
        assert "there is no file" in caplog.text
        assert reload.in_force is before
        code.write_text(EVALUATOR + "# mended\n")
        assert reload.poll() is reload.in_force

    def test_what_looks_wrong_in_changed_rules_is_logged_once(
        self, file: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        reload = RuleReload(RulesSettings(paths=[str(file.parent)]), Telemetry("judge"))
        file.write_text(RULE.format(id="one") + 'match: {prompt: "refund*"}\n')
        with caplog.at_level(logging.WARNING):
            assert reload.poll() is reload.in_force
            assert reload.poll() is None
        [record] = caplog.records
        assert record.levelno == logging.WARNING
        assert record.getMessage().startswith(f"{file}:4:9: match.prompt: 'refund*' looks like a glob")

    def test_wrong_rules_stop_the_start(self, file: Path) -> None:
        file.write_text("id: [")
        with pytest.raises(TraceGradeError, match="not YAML"):
            RuleReload(RulesSettings(paths=[str(file)]), Telemetry("judge"))


def _swapped_after_one_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Point ``..data`` to another folder, now or when the next rule file has been read."""
    waiting: list[str] = []
    open_file = Path.open

    def swap_to(name: str, *, while_read: bool = False) -> None:
        if while_read:
            waiting.append(name)
            return
        (folder / "..new").symlink_to(f"..{name}")
        (folder / "..new").rename(folder / "..data")

    def opening(path: Path, *arguments: Any, **options: Any) -> Any:
        opened = open_file(path, *arguments, **options)
        if path.name.endswith(".rule.yaml") and waiting:
            swap_to(waiting.pop())
        return opened

    monkeypatch.setattr(Path, "open", opening)
    return swap_to
