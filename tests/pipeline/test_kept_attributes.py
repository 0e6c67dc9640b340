"""Attributes that neither a dialect nor a rule reads, and that a setting names."""

from build.harness import records
from build.otlp import otlp_span
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import without_bounds
from tracegrade.config import Config
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

NAMED = Config.model_validate({"alerts": {"slices": ["app.customer"]}})


def rules(rule_id: str) -> RuleSet:
    evaluate = [{"evaluator": "tool-call-order", "tool_calls_order": ["create_order"]}]
    return RuleSet([Rule.model_validate({"id": rule_id, "evaluate": evaluate})])


def customers(config: Config, *, changed: bool = False) -> list[object]:
    """What is kept of the customer of a trace."""
    judge = RecordJudge(config.traces, rules("old"), ClosedTraces())
    if changed:
        judge.use(rules("new"))
    span = otlp_span(1, 1, None, gen_ai__operation__name="invoke_agent", app__customer="acme", app__secret="s")
    judged = [item for record in records([(0, [span])]) for item in judge.read(record)]
    (trace,) = [item.trace for item in [*judged, *judge.end()]]
    (kept,) = trace.spans
    assert "app.secret" not in kept.attributes
    return [value for name, value in kept.attributes.items() if name == "app.customer"]


def test_an_attribute_that_slices_name_is_kept_also_after_other_rules_came() -> None:
    assert customers(Config()) == []
    assert customers(NAMED) == ["acme"]
    assert customers(NAMED, changed=True) == ["acme"]


def test_replay_keeps_what_the_live_run_keeps() -> None:
    assert without_bounds(NAMED.traces).kept_attributes == {"app.customer"}


def test_it_is_part_of_the_settings_hash_and_of_no_rules() -> None:
    assert NAMED.settings_hash != Config().settings_hash
    assert Config.model_validate({"alerts": {"slices": []}}).settings_hash == Config().settings_hash
