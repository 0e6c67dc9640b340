import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import build
from build import each, store_with
from build.judged_traces import evaluation, judged, trace_id
from build.shop import MS, RULES, SECOND, WRONG_QUANTITY, Writer, crawl, fill, order
from build.site import Site, serving, text_of
from tracegrade.cli import main
from tracegrade.extract.extract import extract
from tracegrade.model.span import Resource
from tracegrade.model.trace import Trace
from tracegrade.rule.load import load_rules
from tracegrade.web.waterfall import WIDTH, waterfall


def _id(number: int) -> str:
    return f"a1{number:030x}"


def _page(shop: Site, number: int, query: str = "") -> str:
    answer = shop.get(f"/traces/{_id(number)}{query}")
    assert answer.status == 200, answer.text
    return answer.text


def test_a_failing_rule_shows_what_was_expected_beside_what_was_called(shop: Site) -> None:
    page = text_of(_page(shop, 1))
    assert "⇅ out of order 3 create_order 1 create_order" in page
    assert "= matched 1 validate_user 2 validate_user" in page
    assert "score 0.6667 threshold 1" in page


def test_a_result_that_was_stored_without_its_pairs_is_shown_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracegrade.model.evaluation.Pairing.pairs", None)  # as all were stored, once
    fill(tmp_path, iter([(order(1, 10**18, "1.5.0", WRONG_QUANTITY), None)]))
    with serving(tmp_path, str(RULES)) as site:
        page = text_of(_page(site, 1))
    assert "No pairing is stored with this result, so expected and actual calls are listed without pairs." in page
    assert "· without a pair 3 create_order" in page
    assert "not called" not in page
    assert "not expected" not in page


def test_of_many_results_of_one_rule_the_first_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    of_calls = [evaluation(1, "fail", subject={"kind": "tool-call", "id": f"{number:016x}"}) for number in range(7)]
    store_with(tmp_path, judged(1, evaluations=of_calls))
    with serving(tmp_path) as site:
        answer = site.get(f"/traces/{trace_id(1)}")
    assert answer.text.count('<details class="judged fail"') == 5
    assert "more results of the same rules ✗ 2 fail by checkout-order" in text_of(answer.text)


def test_arguments_are_told_apart_by_path_and_word(shop: Site) -> None:
    page = text_of(_page(shop, 7))
    assert "qty different 2 5" in page
    assert 'ship.country different {"$one_of":["DE","FR"]} "US"' in page
    assert 'ship.express missing {"$any":true} nothing' in page
    assert "+ extra not expected 3 notify_sales" in page


def test_it_says_why_it_was_closed_and_whether_it_is_whole(shop: Site) -> None:
    page = text_of(_page(shop, 2))
    assert "complete" not in page
    assert "no span came for traces.settle" in page
    page = text_of(_page(shop, 4))
    assert "◐ incomplete: root, parent:" in page
    assert "no span came for traces.idle_timeout" in page


def test_each_rule_has_a_decision_or_the_clause_that_did_not_hold(shop: Site) -> None:
    page = text_of(_page(shop, 6))
    assert "refund-without-lookup not matched match.agent does not hold" in page


def test_it_leads_to_its_session(shop: Site) -> None:
    html = _page(shop, 1)
    assert re.search(r'href="/sessions/[0-9a-f]{32}">talk<', html)
    assert "conversation-orders-too-often" in text_of(html)


def test_sub_agents_are_runs_of_their_own(shop: Site) -> None:
    page = text_of(_page(shop, 5))
    assert "refund-agent 2 tool calls, called by support-desk" in page
    assert "! TimeoutError" in page


def test_a_rule_that_has_changed_since_is_said_to_have(shop: Site, tmp_path: Path) -> None:
    changed = tmp_path / "orders.rule.yaml"
    changed.write_text((RULES / changed.name).read_text().replace("level: high", "level: low"))
    kept, shop.rules = shop.rules, load_rules([str(changed)])
    try:
        page = text_of(_page(shop, 1))
    finally:
        shop.rules = kept
    assert "a version that is no longer in force" in page


def test_a_long_trace_is_shown_in_part_and_whole_when_asked(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.web.pages.trace._MAX_LINES", 10)
    monkeypatch.setattr("tracegrade.web.pages.trace._MAX_CALLS", 10)
    part, whole = _page(shop, 3), _page(shop, 3, "?all=1")
    assert part.count("<rect") == 10
    assert "Show 35 more spans" in part
    assert "Show 30 more calls" in part
    assert whole.count("<rect") == 45


def test_a_span_opens_beside_its_trace_with_all_that_was_kept_of_it(shop: Site) -> None:
    (address,) = re.findall(r'href="(/traces/[0-9a-f]+/spans/[0-9a-f]+)">execute_tool create_order<', _page(shop, 1))
    html = shop.get(address).text
    page = text_of(html)
    assert f'href="/traces/{_id(1)}" aria-label="Close the span"' in html
    assert "Please order 2 of A-1" in page
    assert "gen_ai.tool.call.arguments" in page
    assert "Read as the tool call create_order" in page
    assert "service.version 1.5.0" in page


@each(
    ("path", "message"),
    [
        ("/traces/a1", "'a1': no stored trace or session has this id"),
        ("/traces/zz", "'zz': no stored trace or session has this id"),
        (f"/traces/{'0' * 31}1", "This trace is not in the store."),
        (f"/traces/{_id(1)}/spans/0123", "has no span 0123"),
    ],
)
def test_what_is_not_there_is_not_found(shop: Site, path: str, message: str) -> None:
    answer = shop.get(path)
    assert answer.status == 404
    assert message in text_of(answer.text)


def test_what_is_not_certain_of_a_trace_is_said_with_what_would_make_it_so(tmp_path: Path) -> None:
    agent = {"id": 1, "name": "run", "attributes": {"gen_ai.operation.name": "invoke_agent"}}
    call = {"acme.kind": "tool", "acme.tool.name": "search", "acme.input": '{"q": "x"}'}
    said = {"gen_ai.operation.name": "execute_tool"}
    nameless = {"id": 3, "name": "work", "parent": 1, "scope": "t", "attributes": said}
    trace = build.trace([agent, {"id": 2, "parent": 1, "scope": "acme", "attributes": call}, nameless])
    fill(tmp_path, iter([(trace, None)]))
    with serving(tmp_path) as site:
        answer = site.get(f"/traces/{trace.trace_id.hex()}")
        (stored,) = json.loads(site.get(f"/api/v1/traces/{trace.trace_id.hex()}").text)["items"]
    assert answer.status == 200
    page = text_of(answer.text)
    assert "1 call of search was read by shape: no dialect knows the spans of scope 'acme'; to be certain, " in page
    assert "work of scope t was not read: the tool of a call cannot be read; attributes: gen_ai.operation" in page
    assert "have the sender record the tool's name as gen_ai.tool.name." in page
    assert (page.count("? not read"), page.count("search read by shape")) == (1, 1)
    assert [(span["name"], span["scope"]) for span in stored["unread"]] == [("work", "t")]


def test_a_trace_that_is_read_for_certain_says_nothing_of_it(shop: Site) -> None:
    assert "Not certain" not in text_of(_page(shop, 1))


def test_it_is_downloaded_as_the_commands_print_it(shop: Site) -> None:
    as_json, as_otlp = (shop.get(f"/traces/{_id(1)}/{name}") for name in ("trace.json", "trace.otlp.jsonl"))
    assert as_json.headers["Content-Disposition"] == f'attachment; filename="{_id(1)}.json"'
    shown, exported = (
        CliRunner().invoke(main, ["traces", *arguments, _id(1), "--data-dir", str(shop.config.data_path)]).stdout
        for arguments in (["show", "--format", "json"], ["export"])
    )
    assert json.loads(as_json.text) == json.loads(shown)
    assert as_otlp.text == exported


def _lines(trace: Trace) -> list[tuple[str, int, str]]:
    return [(line.span.name, line.depth, line.kind) for line in waterfall(trace.spans, extract(trace))]


def test_children_stand_below_their_parents_and_kinds_are_told() -> None:
    assert _lines(order(1, 10 * SECOND, "1", [("look", {}, None)])) == [
        ("invoke_agent order-agent", 0, "agent"),
        ("chat gpt-4o", 1, "model"),
        ("execute_tool look", 1, "tool"),
        ("chat gpt-4o", 1, "model"),
    ]


def test_spans_whose_parents_lead_in_a_circle_have_a_line_each() -> None:
    writer = Writer(1, 10 * SECOND, Resource())
    first = writer.span("first", b"", MS)
    second = writer.span("second", first.span_id, MS)
    first.parent_span_id = second.span_id
    alone = writer.span("alone", b"", MS)
    alone.parent_span_id = alone.span_id
    trace = Trace(writer.trace_id, "default", writer.spans, "idle", [], 3)
    assert sorted(name for name, _, _ in _lines(trace)) == ["alone", "first", "second"]


def test_every_bar_lies_within_the_chart() -> None:
    trace = crawl(1, 10 * SECOND, 200)
    found = waterfall(trace.spans, extract(trace))
    assert found[0].width == WIDTH
    assert all(0 <= line.x < WIDTH and line.width > 0 for line in found)


def test_a_trace_without_length_is_drawn() -> None:
    writer = Writer(1, 0, Resource())
    writer.span("point", b"", 0)
    trace = Trace(writer.trace_id, "default", writer.spans, "idle", [], 1)
    assert [line.width > 0 for line in waterfall(trace.spans, extract(trace))] == [True]
