"""What broke: the reasons, the slices and the changes that a diagnosis names, over stores in which something broke."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, select, update

from build.broken_shop import BEGAN, DAY, NOT_CALLED, Shop, at
from build.judged_traces import AGENT_SPAN, tool_call
from build.loop_stage import rules
from build.stored_alerts import incident
from tracegrade.alert.diagnose.diagnose import with_diagnoses
from tracegrade.model.trace_result import RunSummary
from tracegrade.store.alerts import Facts, save_alert
from tracegrade.store.diagnosis import Diagnosis
from tracegrade.store.open import reading
from tracegrade.store.rule_texts import save_rule_texts
from tracegrade.store.schema import traces


@pytest.fixture
def shop(engine: Engine) -> Shop:
    return Shop(engine)


def well(shop: Shop, *, fails_every: int = 0, **changes: object) -> None:
    """Two days of it until it began, a result each 10 minutes."""
    for number, minute in enumerate(range(BEGAN - 2 * DAY, BEGAN, 10)):
        outcome = "fail" if fails_every and number % fails_every == 0 else "pass"
        shop.put(minute, outcome, says="1 call made; none was expected.", **changes)  # type: ignore[arg-type]


def explained(found: Diagnosis) -> list[tuple[str, str, int]]:
    return [(item.by, item.value, round(100 * item.explains)) for item in found.slices]


def test_a_release_that_broke_explains_the_fall_and_is_named_with_its_minute(shop: Shop) -> None:
    well(shop, fails_every=20)
    for minute in range(BEGAN + 3, BEGAN + 63):
        shop.put(minute, "fail" if minute % 20 == 0 else "pass")
        shop.put(minute, "fail" if minute % 2 == 0 else "pass", release="1.1")
    found = shop.diagnosis()
    assert explained(found) == [("release", "1.1", 100)]
    (broken,) = found.slices
    # 30 of the 60 results of 1.1, which are half of 120; nothing of 1.1 came before.
    assert (broken.bad, broken.bad_before, broken.share) == (0.5, None, 0.5)
    assert [(change.what, change.time_ns) for change in found.changes] == [("release", at(BEGAN + 3))]
    assert found.changes[0].text == "release 1.1 first seen at 2026-01-21 00:03 UTC"


def test_reasons_are_counted_since_the_fall_and_before(shop: Shop) -> None:
    """Before, 15 of 288 fail for another reason. Since then, 12 of 60 for that one, 24 for a new one."""
    well(shop, fails_every=20)
    other = "1 call made; none was expected."
    for minute in range(BEGAN, BEGAN + 60):
        outcome = "pass" if minute % 5 > 2 else "fail"
        shop.put(minute, outcome, says=other if minute % 5 == 0 else NOT_CALLED)
    found = shop.diagnosis().reasons
    assert [(item.text, item.count, item.of, item.count_before, item.of_before) for item in found] == [
        (NOT_CALLED, 24, 36, 0, 15),
        (other, 12, 36, 15, 15),
    ]
    assert [item.share for item in found] == pytest.approx([24 / 60, 12 / 60])
    assert [item.share_before for item in found] == pytest.approx([0, 15 / 288])


def test_numbers_and_ids_in_a_text_do_not_split_a_reason(shop: Shop) -> None:
    well(shop)
    said = [
        "Over budget: 12 calls (limit 10); order 8c7b2f60-1a2b-4c3d-9e8f-001122334455 of cart71204 took 1.5s.",
        "Over budget: 14 calls (limit 10); order 0c7b2f60-1a2b-4c3d-9e8f-001122334455 of cart8 took 2s.",
        "Over budget: 9 calls (limit 10); order 0c7b2f60-1a2b-4c3d-9e8f-001122334456 of cart991 took 900ms.",
    ]
    for number, text in enumerate(said * 3):
        shop.put(BEGAN + number, "fail", says=text)
    common, rest = shop.diagnosis().reasons
    assert (common.text, common.count) == ("Over budget: … calls (limit 10); order … of cart… took ….", 6)
    assert "of cart8 took" in rest.text  # a digit or two in a word may be a part of a name


def test_tools_that_differ_in_a_digit_are_two_reasons(shop: Shop) -> None:
    for number in range(6):
        shop.put(BEGAN + number, "fail", says=f"not called: step{1 + number % 2}.")
    assert sorted(item.text for item in shop.diagnosis().reasons) == ["not called: step1.", "not called: step2."]


def test_a_model_that_broke_on_one_tool_is_named_before_what_both_have_in_common(shop: Shop) -> None:
    """The new model takes half of all runs, and all of its refunds fail; all else goes on as before."""
    well(shop, tools=("refund",))
    well(shop, tools=("create_order",))
    for minute in range(BEGAN, BEGAN + 120):
        model = "large" if minute % 2 else "small"
        tool = "refund" if minute % 4 < 2 else "create_order"
        broke = model == "large" and tool == "refund"
        shop.put(minute, "fail" if broke else "pass", model=model, tools=(tool,))
    found = shop.diagnosis()
    assert explained(found) == [("model", "large", 100), ("tool", "refund", 100)]
    assert [change.text for change in found.changes] == [
        "model large first seen at 2026-01-21 00:01 UTC, before: small"
    ]
    assert [item.share for item in found.slices] == [0.5, 0.5]


def test_a_prompt_that_is_new_is_named_and_one_that_is_used_once_is_not(shop: Shop) -> None:
    well(shop, prompt_hash="a" * 16)
    for minute in range(BEGAN, BEGAN + 60):
        is_new = minute % 2 == 0
        shop.put(minute, "fail" if is_new else "pass", prompt_hash="b" * 16 if is_new else f"{minute:016d}")
    found = shop.diagnosis()
    assert explained(found) == [("prompt", "b" * 16, 100)]
    assert [change.text for change in found.changes] == [
        f"prompt {'b' * 16} first seen at 2026-01-21 00:00 UTC, before: {'a' * 16}"
    ]


def test_an_even_fall_has_no_slices(shop: Shop) -> None:
    for minute in range(BEGAN - DAY, BEGAN, 5):
        shop.put(minute, release=f"1.{minute % 2}", model=["small", "large"][minute // 5 % 2])
    for minute in range(BEGAN, BEGAN + 120):
        outcome = "fail" if minute % 4 < 2 else "pass"
        shop.put(minute, outcome, release=f"1.{minute % 2}", model=["small", "large"][minute // 8 % 2])
    found = shop.diagnosis()
    assert found.slices == []
    assert found.changes == []


def test_what_is_bad_all_the_time_explains_nothing(shop: Shop) -> None:
    """Half of what release 1.1 does fails, as it did before; 1.0 broke."""
    for minute in range(BEGAN - DAY, BEGAN, 5):
        shop.put(minute)
        shop.put(minute, "fail" if minute % 10 else "pass", release="1.1")
    for minute in range(BEGAN, BEGAN + 60):
        shop.put(minute, "fail" if minute % 2 else "pass")
        shop.put(minute, "fail" if minute % 2 else "pass", release="1.1")
    # Not all: the rate before of 288 results of 1.0 is drawn a little to that of all.
    assert explained(shop.diagnosis()) == [("release", "1.0", 98)]


def test_without_any_history_it_says_what_it_sees(shop: Shop) -> None:
    for minute in range(BEGAN, BEGAN + 60):
        shop.put(minute, "fail" if minute % 2 else "pass", model="large" if minute % 2 else "small")
    found = shop.diagnosis()
    assert [(item.count, item.of, item.share, item.share_before) for item in found.reasons] == [(30, 30, 0.5, None)]
    assert explained(found) == [("model", "large", 100)]
    assert found.slices[0].bad_before is None
    assert found.changes == []  # what is all new has not changed
    assert len(found.examples) == 5


def test_an_empty_store_gives_an_empty_diagnosis(shop: Shop) -> None:
    assert shop.diagnosis() == Diagnosis(since_ns=at(BEGAN))


def test_a_fall_that_is_older_than_an_hour_is_told_from_its_beginning(shop: Shop) -> None:
    """It began 30 hours before it was found, with the release; another release came an hour before it was found."""
    well(shop)
    for minute in range(BEGAN, BEGAN + 30 * 60, 10):
        shop.put(minute, "fail" if minute % 20 else "pass", release="1.1")
    shop.put(BEGAN + 29 * 60, release="1.2")
    found = shop.diagnosis(shop.alert(now=BEGAN + 30 * 60))
    assert [change.text for change in found.changes] == ["release 1.1 first seen at 2026-01-21 00:00 UTC"]
    assert (found.reasons[0].count, found.reasons[0].count_before) == (90, 0)


def test_what_has_fired_for_long_is_told_from_its_latest_results(shop: Shop) -> None:
    """1.1 broke and was found within an hour; five hours later 1.2 has taken its place, and breaks otherwise."""
    well(shop)
    for minute in range(BEGAN, BEGAN + 240, 4):
        shop.put(minute, "fail", release="1.1")
    worst = [
        shop.put(minute, "fail", says="No answer.", release="1.2") for minute in range(BEGAN + 330, BEGAN + 360, 3)
    ]
    fires = replace(shop.alert(now=BEGAN + 60), updated_ns=at(BEGAN + 360))
    found = shop.diagnosis(fires)
    assert found.since_ns == at(BEGAN + 300)
    assert [(item.text, item.count, item.of) for item in found.reasons] == [("No answer.", 10, 10)]
    assert explained(found) == [("release", "1.2", 100)]
    assert (found.slices[0].bad, found.slices[0].bad_before, found.slices[0].share) == (1.0, None, 1.0)
    assert [change.text for change in found.changes] == [
        "release 1.1 first seen at 2026-01-21 00:00 UTC",
        "release 1.2 first seen at 2026-01-21 05:30 UTC",
    ]
    assert found.examples == [ids for (ids,) in worst[:-6:-1]]


def test_while_nothing_bad_comes_what_was_found_last_stays(shop: Shop) -> None:
    well(shop)
    shop.put(BEGAN + 2, "fail", count=9)
    shop.put(BEGAN + 350, count=9)
    shop.write()
    fires = replace(
        shop.alert(now=BEGAN + 60), facts=Facts(since_ns=at(BEGAN), worst=["ab"], causes_as_of_ns=at(BEGAN + 60))
    )
    with reading(shop.engine) as connection:
        for minute, worst, as_of in ((61, 5, 61), (360, 1, 60)):
            looked = replace(fires, updated_ns=at(BEGAN + minute))
            (found,) = with_diagnoses(connection, [incident(looked)], {fires.key}, (), (), include_values=False)
            assert len(found.lead.facts.worst) == worst, minute
            assert found.lead.facts.causes_as_of_ns == at(BEGAN + as_of)


def test_of_releases_that_are_all_new_each_explains_its_part(shop: Shop) -> None:
    well(shop)
    for minute in range(BEGAN, BEGAN + 60, 2):
        shop.put(minute, "fail", release="1.1" if minute < BEGAN + 20 else "1.2")
    found = shop.diagnosis()
    assert explained(found) == [("release", "1.2", 67), ("release", "1.1", 33)]


def test_a_release_that_all_results_have_in_common_is_named_only_if_none_had_it_before(shop: Shop) -> None:
    well(shop)
    for minute in range(BEGAN, BEGAN + 60, 4):
        shop.put(minute, "fail")
    assert explained(shop.diagnosis()) == []


def test_of_a_service_that_is_new_the_second_release_has_changed(shop: Shop) -> None:
    for minute in range(30):
        shop.put(BEGAN + minute)
        shop.put(BEGAN + 30 + minute, "fail", release="1.1")
    found = shop.diagnosis(shop.alert(since=BEGAN + 30, now=BEGAN + 60))
    assert [change.text for change in found.changes] == ["release 1.1 first seen at 2026-01-21 00:30 UTC"]


def test_results_of_one_time_are_all_looked_at(shop: Shop) -> None:
    shop.put(BEGAN - 1, count=100)
    shop.put(BEGAN, count=50, tools=("create_order",))
    bad = shop.put(BEGAN, "fail", count=50, tools=("refund",))
    found = shop.diagnosis(shop.alert(now=BEGAN + 1))
    assert explained(found) == [("tool", "refund", 100)]
    assert (found.reasons[0].count, found.reasons[0].of) == (50, 50)
    assert found.examples == bad[:-6:-1]


def test_earlier_incidents_are_no_baseline(shop: Shop) -> None:
    """Release 1.1 broke yesterday, too, and was taken back."""
    well(shop)
    for minute in range(BEGAN - DAY, BEGAN - DAY + 60):
        shop.put(minute, "fail", release="1.1")
    for minute in range(BEGAN, BEGAN + 60):
        shop.put(minute)
        shop.put(minute, "fail", release="1.1")
    assert explained(shop.diagnosis()) == []
    earlier = shop.alert(since=BEGAN - DAY, now=BEGAN - DAY + 10)
    with shop.engine.begin() as connection:
        save_alert(connection, replace(earlier, state="resolved", ends_ns=at(BEGAN - DAY + 60)))
    found = shop.diagnosis()
    assert explained(found) == [("release", "1.1", 100)]
    assert found.reasons[0].count_before == 0


def values(outcome: str) -> dict[str, object]:
    difference = {"call": "pay#1", "path": "args.total", "problem": "wrong", "expected": 3, "found": "4111 1111"}
    said = "KeyError: '4111 1111'"
    return {"says": said, "reason": said} if outcome == "error" else {"details": {"differences": [difference]}}


@pytest.mark.parametrize(
    ("outcome", "of", "text", "example"),
    [
        ("fail", {}, NOT_CALLED, 'pay#1 args.total: expected 3, found "4111 1111"'),
        ("error", {"kind": "above", "of": "error"}, "the evaluator failed: KeyError", "KeyError: '4111 1111'"),
    ],
)
def test_values_are_told_only_where_they_may_be(
    shop: Shop, outcome: str, of: dict[str, str], text: str, example: str
) -> None:
    for minute in range(BEGAN, BEGAN + 10):
        shop.put(minute, outcome, **values(outcome))  # type: ignore[arg-type]
    alert = shop.alert(**of)
    (reason,) = shop.diagnosis(alert).reasons
    assert (reason.text, reason.example, reason.trace_id) == (text, "", "")
    found = shop.diagnosis(alert, include_values=True)
    (reason,) = found.reasons
    assert (reason.text, reason.example, reason.trace_id) == (text, example, found.examples[0])


def test_a_rules_own_sentence_is_told_with_values_only_where_they_may_be(shop: Shop) -> None:
    for minute in range(BEGAN, BEGAN + 10):
        shop.put(minute, "fail", says="amount was refunded", details={"explain": "7525 was refunded"})
    (without,) = shop.diagnosis(shop.alert()).reasons
    (reason,) = shop.diagnosis(shop.alert(), include_values=True).reasons
    assert (without.text, without.example) == ("amount was refunded", "")
    assert (reason.text, reason.example) == ("amount was refunded", "7525 was refunded")


def test_without_recorded_content_reasons_and_slices_are_still_told(shop: Shop) -> None:
    """No prompt, no arguments, no model: what cannot be judged says why, and at which tool."""
    well(shop, model=None)
    for minute in range(BEGAN, BEGAN + 60):
        lacks = minute % 2 == 0
        tool = "refund" if lacks else "create_order"
        said = "refund has no arguments"
        shop.put(minute, "not_evaluable" if lacks else "pass", says=said, reason=said, model=None, tools=(tool,))
    found = shop.diagnosis(shop.alert(kind="above", of="not_evaluable"))
    assert [(item.text, item.count) for item in found.reasons] == [("refund has no arguments", 30)]
    assert explained(found) == [("tool", "refund", 100)]


def test_of_a_mean_score_the_lost_score_is_explained(shop: Shop) -> None:
    """No result fails: scores of release 1.1 fell from 1 to 0.92, the threshold is 0.9."""
    well(shop)
    for minute in range(BEGAN, BEGAN + 60):
        shop.put(minute)
        shop.put(minute, "pass", score=0.92, release="1.1")
        shop.put(minute, "fail", score=0.5, release="1.1")
    found = shop.diagnosis(shop.alert(of="tool-call-order.score"))
    (lower,) = found.slices
    assert (lower.by, lower.value) == ("release", "1.1")
    assert lower.bad == pytest.approx(1 - (0.92 + 0.5) / 2)


def test_of_silence_only_what_changed_is_told(shop: Shop) -> None:
    well(shop, fails_every=2)
    shop.put(BEGAN, "fail", release="1.1")
    found = shop.diagnosis(shop.alert(kind="silent", since=BEGAN))
    assert (found.reasons, found.slices, found.examples) == ([], [], [])
    assert [change.text for change in found.changes] == ["release 1.1 first seen at 2026-01-21 00:00 UTC"]


def customers(shop: Shop) -> None:
    """Ten customers, of which acme breaks; another attribute has a new value each time."""
    for number, minute in enumerate(range(BEGAN - DAY, BEGAN, 10)):
        shop.put(minute, attributes={"app.customer": f"customer-{number % 9}", "app.request": f"r{number}"})
    for number, minute in enumerate(range(BEGAN, BEGAN + 100)):
        is_acme = number % 10 == 0
        customer = "acme" if is_acme else f"customer-{number % 9}"
        attributes = {"app.customer": customer, "app.request": f"r{minute}", "app.tier": 1 if is_acme else 2}
        shop.put(minute, "fail" if is_acme else "pass", attributes=attributes)


def test_the_value_of_an_attribute_that_the_settings_name_explains_a_fall(shop: Shop) -> None:
    customers(shop)
    assert explained(shop.diagnosis()) == []
    found = shop.diagnosis(slices=["app.customer", "app.request", "app.tier", "app.absent"])
    assert explained(found) == [("app.customer", "acme", 100), ("app.tier", "1", 100)]
    assert (found.slices[0].share, found.slices[0].bad, found.slices[0].bad_before) == (0.1, 1.0, None)


def test_an_attribute_of_the_resource_is_found_and_one_of_the_subject_comes_first(shop: Shop) -> None:
    """`service.name` is of the resource of every span; some agents' spans say another."""
    for minute in range(BEGAN, BEGAN + 40):
        bad = minute % 4 == 0
        shop.put(minute, "fail" if bad else "pass", attributes={"service.name": "checkout"} if bad else {})
    found = shop.diagnosis(slices=["service.name"])
    assert explained(found) == [("service.name", "checkout", 100)]


def test_damaged_traces_are_passed_over(shop: Shop) -> None:
    customers(shop)
    shop.write()
    with shop.engine.begin() as connection:
        damaged = select(traces.c.number).order_by(traces.c.number.desc()).limit(55)
        where = traces.c.number.in_(damaged.scalar_subquery())
        connection.execute(update(traces).where(where).values(judged=b"no result", spans=b"no spans"))
    found = shop.diagnosis(slices=["app.customer"])
    # Of ten fails, the last five cannot be read; they are fails at an unknown customer, for an unknown reason.
    assert [(reason.count, reason.of) for reason in found.reasons] == [(5, 5)]
    assert explained(found) == [("app.customer", "acme", 50)]
    assert len(found.examples) == 5


def test_of_very_many_traces_some_are_looked_at_and_the_proportions_stay(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 results since it began: 10 % of create_order fails as before, and all of refund, which is a tenth."""
    monkeypatch.setattr("tracegrade.alert.diagnose.cases.MOST_CASES", 60)
    for number in range(1000):
        shop.put(BEGAN - 1000 + number, "fail" if number % 10 == 5 else "pass")
    for number in range(2000):
        is_refund = number % 10 == 0
        outcome = "fail" if is_refund or number % 10 == 5 else "pass"
        shop.put(BEGAN + number / 20, outcome, tools=("refund" if is_refund else "create_order",))
    (found,) = shop.diagnosis().slices
    assert (found.by, found.value) == ("tool", "refund")
    assert found.share == pytest.approx(0.1, abs=0.02)
    assert found.bad == 1.0
    assert found.explains == pytest.approx(0.9, abs=0.15)


def test_a_rule_that_was_edited_is_told_with_the_minute(shop: Shop) -> None:
    """Its text first, then what it judges: told by its first result."""
    texts = [rules(), rules(title="Another title"), rules(title="Another title", scope="trace")]
    with shop.engine.begin() as connection:
        for rule_set, minute in zip(texts, (BEGAN - 300, BEGAN - 7.5, BEGAN + 1), strict=True):
            save_rule_texts(connection, rule_set, at(minute))
    old, _, new = (rule_set.rules[0].hash for rule_set in texts)
    shop.put(BEGAN - 300, count=20, rule_hash=old)
    shop.put(BEGAN + 2, "fail", count=20, rule_hash=new)
    assert [(change.what, change.text) for change in shop.diagnosis(shop.alert(rule_hash=new)).changes] == [
        ("rule", "the rule's text was edited at 2026-01-20 23:52 UTC; it judges as before"),
        ("rule", "the rule was changed; this form first judged at 2026-01-21 00:02 UTC"),
    ]


def test_an_alert_over_all_agents_says_which_fell(shop: Shop) -> None:
    for minute in range(BEGAN - DAY, BEGAN, 10):
        shop.put(minute, agent="support")
        shop.put(minute, agent="billing")
    for minute in range(BEGAN, BEGAN + 30):
        shop.put(minute, agent="support")
        shop.put(minute, "fail", agent="billing")
    assert explained(shop.diagnosis(shop.alert(agent=""))) == [("agent", "billing", 100)]
    assert shop.diagnosis(shop.alert(agent="support")).reasons == []


def test_tools_and_models_of_other_agents_of_a_trace_are_not_those_of_the_subject(shop: Shop) -> None:
    for minute in range(BEGAN, BEGAN + 40):
        bad = minute % 2 == 0
        runs = [
            RunSummary(AGENT_SPAN, "support", model="small"),
            RunSummary("00f067aa0ba90000", "helper", model="large" if bad else "small"),
        ]
        calls = [tool_call(), tool_call(name="search" if bad else "look", agent="helper")]
        shop.put(minute, "fail" if bad else "pass", runs=runs, tool_calls=calls)
    assert explained(shop.diagnosis()) == []
    whole = {"kind": "trace", "id": "a trace"}
    for minute in range(BEGAN + 40, BEGAN + 80):
        bad = minute % 2 == 0
        runs = [RunSummary(AGENT_SPAN, "support"), RunSummary("00f067aa0ba90000", "helper", model=f"m{bad}")]
        calls = [tool_call(), tool_call(name="search" if bad else "look", agent="helper")]
        subject = [{"subject": whole}]
        shop.put(minute, "fail" if bad else "pass", runs=runs, tool_calls=calls, evaluations=subject, agent="desk")
    found = shop.diagnosis(shop.alert(agent="desk"))
    assert explained(found) == [("model", "mTrue", 100), ("tool", "search", 100)]


def test_of_a_rule_about_calls_the_call_that_was_judged_is_its_tool(shop: Shop) -> None:
    for minute in range(BEGAN, BEGAN + 40):
        bad = minute % 2 == 0
        name = "refund" if bad else "create_order"
        calls = [tool_call(name="look" if bad else "ask"), tool_call(name=name, span_id="00f067aa0ba902ff")]
        subject = [{"subject": {"kind": "tool-call", "id": "00f067aa0ba902ff/0/1"}}]
        shop.put(minute, "fail" if bad else "pass", tool_calls=calls, evaluations=subject)
        shop.put(minute, tools=("search",))
    found = shop.diagnosis()
    assert explained(found) == [("tool", "refund", 100)]


def test_of_very_many_traces_the_first_with_a_new_model_is_found(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """4 of 20 blocks are read at first; the model began between two of them."""
    monkeypatch.setattr("tracegrade.store.index.MOST_BLOCKS", 4)
    well(shop)
    for number in range(20 * 64):
        is_new = number >= 7 * 64
        shop.put(BEGAN + number / 20, "fail" if is_new and number % 2 else "pass", model="large" if is_new else "small")
    (change,) = shop.diagnosis().changes
    # 7 * 64 / 20 = 22.4 minutes
    assert change.text == "model large first seen at 2026-01-21 00:22 UTC, before: small"


@pytest.mark.parametrize(
    ("release", "reasons", "traces", "share"),
    [(None, 3, 160, 0.75), ("", 1, 40, 1), ("1.0", 1, 40, 1), ("1.1", 1, 80, 0.5)],
)
def test_an_alert_on_a_release_tells_of_that_release_alone(
    shop: Shop, release: str | None, reasons: int, traces: int, share: float
) -> None:
    """None is all of them, "" those whose service names none. Before, all of them count."""
    well(shop, release="0.9")
    for minute in range(BEGAN, BEGAN + 40):
        for number, each in enumerate((None, "1.0", "1.1")):
            shop.put(minute, "fail", says=f"not called: step{number}.", release=each)
        shop.put(minute, release="1.1")
    found = shop.diagnosis(shop.alert(release=release, now=BEGAN + 40, over_s=2400.0))
    assert len(found.reasons) == reasons
    assert {reason.share_before for reason in found.reasons} == {0.0}
    assert found.traces == traces
    assert sum(reason.share for reason in found.reasons) == pytest.approx(share)


def test_what_was_measured_beside_an_outcome_is_passed_over(shop: Shop) -> None:
    for minute in range(BEGAN, BEGAN + 40):
        shop.put(minute, "fail" if minute % 4 == 0 else "pass", tokens=12_000.0)
    assert [(reason.count, reason.share) for reason in shop.diagnosis().reasons] == [(10, 0.25)]


@pytest.mark.parametrize(("kind", "was"), [("rise", 1000.0), ("above", None)])
def test_of_what_was_measured_the_slice_that_rose_is_told(shop: Shop, kind: str, was: float | None) -> None:
    """A new model takes half of all runs and 9,000 tokens instead of 1,000; one trace of the old one takes 20,000."""
    for minute in range(BEGAN - DAY, BEGAN, 10):
        shop.put(minute, tokens=900.0 + minute % 20 * 20)
    largest = shop.put(BEGAN, tokens=20_000.0)
    for minute in range(BEGAN, BEGAN + 60):
        shop.put(minute, tokens=900.0 + minute % 11 * 20)
        shop.put(minute, "fail", tokens=8900.0 + minute % 11 * 20, model="large")
    shop.put(BEGAN, "not_evaluable")  # of it nothing was measured
    found = shop.diagnosis(shop.alert(of="tokens", kind=kind, was=was, over_s=7200.0))
    assert found.traces == 122
    assert [(item.by, item.value) for item in found.slices] == [("model", "large")]
    assert found.slices[0].explains == pytest.approx(0.96, abs=0.02)
    assert found.slices[0].bad == pytest.approx(9000, rel=0.01)
    assert [change.what for change in found.changes] == ["model"]
    assert found.examples[0] == largest[0]
    assert found.reasons == []


def test_of_a_mean_score_that_falls_without_a_fail_the_slice_is_told(shop: Shop) -> None:
    well(shop)
    for minute in range(BEGAN, BEGAN + 60):
        shop.put(minute, "pass", score=0.99)
        shop.put(minute, "pass", score=0.93 + minute % 3 / 100, release="1.1")
    found = shop.diagnosis(shop.alert(of="tool-call-order.score"))
    assert [(item.by, item.value) for item in found.slices] == [("release", "1.1")]


def test_a_rise_of_all_has_no_slices_and_neither_have_few_results(shop: Shop) -> None:
    """Nine results of one prompt are much larger: too few to tell."""
    for minute in range(BEGAN - DAY, BEGAN, 10):
        shop.put(minute, tokens=1000.0 + minute % 7 * 100, model=f"m{minute // 10 % 3}")
    for minute in range(BEGAN, BEGAN + 240):
        few = minute % 27 == 0
        tokens = 3000.0 + minute % 7 * 100 + 9000 * few
        shop.put(minute, tokens=tokens, model=f"m{minute // 7 % 3}", prompt_hash=f"{few:016d}")
    alert = shop.alert(of="tokens", kind="rise", now=BEGAN + 240)
    assert shop.diagnosis(alert).slices == []


def test_without_history_the_rise_is_told_against_the_stated_mean(shop: Shop) -> None:
    """9,000 of 10,000 tokens more than before on average, half of all are of another model; all fail."""
    for minute in range(BEGAN, BEGAN + 60):
        shop.put(minute, "fail", tokens=2000.0)
        shop.put(minute, "fail", tokens=18_000.0, model="large")
    (found,) = shop.diagnosis(shop.alert(of="tokens", kind="rise", was=1000.0)).slices
    assert (found.value, found.explains) == ("large", pytest.approx(17 / 18))
