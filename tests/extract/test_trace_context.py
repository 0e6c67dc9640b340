from pathlib import Path
from typing import Any

import pytest

from build import each, read_case, trace
from tracegrade.extract.extract import extract
from tracegrade.extract.registry import OURS
from tracegrade.extract.trace_context import ExtractionContext, SubjectContext
from tracegrade.model.extraction import Extraction
from tracegrade.model.span import KIND_INTERNAL, STATUS_UNSET, Resource, Span
from tracegrade.model.subject import Subject
from tracegrade.model.trace import Trace
from tracegrade.rule.prices import Price, Prices

_RESOURCE = Resource()
CASES = sorted(Path(__file__).parent.glob("*/*.yaml"))


def _span(number: int, parent: int, start: int, end: int, **attributes: Any) -> Span:
    return Span(
        trace_id=bytes(15) + b"\1",
        span_id=number.to_bytes(8, "big"),
        parent_span_id=parent.to_bytes(8, "big") if parent else b"",
        name="",
        kind=KIND_INTERNAL,
        start_ns=start,
        end_ns=end,
        flags=0,
        status_code=STATUS_UNSET,
        status_message="",
        attributes={key.replace("__", "."): value for key, value in attributes.items()},
        events=[],
        dropped_attributes_count=0,
        scope="",
        resource=_RESOURCE,
    )


def _agent(number: int, parent: int, start: int, end: int, **more: Any) -> Span:
    return _span(
        number, parent, start, end, gen_ai__operation__name="invoke_agent", gen_ai__agent__name=f"a{number}", **more
    )


def _chat(number: int, parent: int, start: int, **more: Any) -> Span:
    return _span(number, parent, start, start + 1, gen_ai__operation__name="chat", **more)


def _extraction(spans: list[Span]) -> Extraction:
    whole = Trace(
        trace_id=bytes(15) + b"\1",
        tenant="default",
        spans=spans,
        close_reason="end_of_input",
        missing=[],
        revision=len(spans),
    )
    return extract(whole)


def _context(
    spans: list[Span], kind: Any = "trace", run: int = 0, prices: dict[str, Price] | None = None
) -> SubjectContext:
    extraction = _extraction(spans)
    subject = Subject(kind, "s", extraction.trace, extraction.runs[run], extraction.calls, "a", "")
    return SubjectContext(ExtractionContext(extraction, Prices(prices or {})), subject)


def test_the_tokens_of_model_calls_are_added_once() -> None:
    spans = [
        _agent(1, 0, 10, 100, gen_ai__usage__input_tokens=30, gen_ai__usage__output_tokens=12),  # the sum of its calls
        _chat(2, 1, 20, gen_ai__usage__input_tokens=10, gen_ai__usage__output_tokens=2),
        _chat(3, 1, 30, gen_ai__usage__input_tokens=20, gen_ai__usage__output_tokens=10),
    ]
    assert _context(spans).tokens() == 42
    assert _context(spans[:1]).tokens() == 42
    assert _context([_chat(1, 0, 10, llm__token_count__total=7)]).tokens() == 7
    assert _context([_chat(1, 0, 10)]).tokens() is None


def test_a_run_has_its_own_tokens_and_times() -> None:
    spans = [
        _agent(1, 0, 10, 100),
        _chat(2, 1, 20, gen_ai__usage__input_tokens=1),
        _agent(3, 1, 40, 60),
        _chat(4, 3, 50, gen_ai__usage__input_tokens=5),
    ]
    outer, inner = _context(spans, "agent", 0), _context(spans, "agent", 1)
    assert (outer.tokens(), inner.tokens(), _context(spans).tokens()) == (1, 5, 6)
    assert (outer.duration_ns(), inner.duration_ns(), _context(spans).duration_ns()) == (90, 20, 90)


def test_a_circle_of_parents_ends() -> None:
    spans = [_chat(1, 2, 10, gen_ai__usage__input_tokens=1), _chat(2, 1, 20)]
    assert _context(spans).tokens() in (None, 1)


def test_the_tools_that_a_model_was_told_of() -> None:
    told = '[{"type": "function", "name": "search", "parameters": {"required": ["q"]}}]'
    spans = [_agent(1, 0, 10, 100), _chat(2, 1, 20, gen_ai__tool__definitions=told)]
    assert _context(spans).tool_definitions() == {"search": {"required": ["q"]}}


@each("path", [path for path in CASES if "tool" in path.read_text(encoding="utf-8")])
def test_a_reader_of_definitions_that_is_not_asked_of_a_span_finds_none_in_it(path: Path) -> None:
    case = read_case(path.read_text(encoding="utf-8"))
    for span in trace(case["spans"]).spans:
        asked = OURS.forms[tuple(span.attributes)].schemas
        for read in OURS.schema_readers if not span.events else ():
            assert read in asked or not read(span)


@each(
    "attributes",
    [
        {"llm.tools.0.tool.json_schema": '{"name": "search", "parameters": {"required": ["q"]}}'},
        {"mlflow.chat.tools": '[{"function": {"name": "search", "parameters": {"required": ["q"]}}}]'},
        {"genkit:input": '{"tools": [{"name": "search", "inputSchema": {"required": ["q"]}}]}'},
        {"llm.request.functions.0.name": "search", "llm.request.functions.0.parameters": '{"required": ["q"]}'},
        {"langwatch.params": '{"tools": [{"name": "search", "parameters": {"required": ["q"]}}]}'},
    ],
)
def test_definitions_are_found_beside_more_attributes_than_are_learnt(attributes: dict[str, str]) -> None:
    span = _chat(1, 0, 20, **attributes, **{f"llm.input_messages.{number}.content": "hm" for number in range(100)})
    assert _context([span]).tool_definitions() == {"search": {"required": ["q"]}}


def test_what_a_trace_says_is_read_once_for_all_its_subjects() -> None:
    context = ExtractionContext(_extraction([_agent(1, 0, 10, 100), _chat(2, 1, 20)]))
    assert context.tool_definitions() is context.tool_definitions()


def test_of_runs_inside_each_other_each_has_the_tokens_of_its_own_calls() -> None:
    depth = 50
    spans = []
    for number in range(1, depth + 1):
        spans.append(_agent(number, number - 1, number, 1000 - number))
        spans.append(_chat(depth + number, number, 200 + number, gen_ai__usage__input_tokens=number))
    runs = [_context(spans, "agent", run).tokens() for run in range(depth)]
    assert runs == list(range(1, depth + 1))
    assert _context(spans).tokens() == sum(runs)


def _paid(number: int, parent: int, start: int, model: str, tokens: tuple[int, int], **more: Any) -> Span:
    taken, given = tokens
    usage = {"gen_ai__usage__input_tokens": taken, "gen_ai__usage__output_tokens": given, **more}
    return _chat(number, parent, start, **({"gen_ai__request__model": model} if model else {}), **usage)


PRICES = {"small": Price(input=1, output=10), "large-*": Price(input=3, output=15, cached_input=0.3, cache_write=4)}


def test_the_cost_of_a_run_is_that_of_its_own_model_calls_once() -> None:
    spans = [
        _agent(1, 0, 0, 100, gen_ai__usage__input_tokens=1_000_000),  # what its calls used, added up
        _paid(2, 1, 10, "small", (200_000, 50_000)),  # 0.2 + 0.5
        _paid(3, 1, 20, "large-2", (100_000, 0)),  # 0.3
        _agent(4, 1, 30, 60),
        _paid(5, 4, 40, "small", (1_000_000, 0)),  # 1.0
    ]
    outer, inner = (_context(spans, "agent", run, PRICES) for run in (0, 1))
    assert (outer.cost(), inner.cost()) == (pytest.approx((1.0, "")), (1.0, ""))
    assert _context(spans, prices=PRICES).cost().amount == pytest.approx(2.0)
    assert _context(spans, "tool-call", prices=PRICES).cost() == (None, "a tool call has no model calls")


@each(
    ("tokens", "cost"),
    [
        ({"cache_read.input_tokens": 400_000}, 0.6 * 3 + 0.4 * 0.3),
        ({"cache_read_input_tokens": 400_000, "cache_creation_input_tokens": 100_000}, 0.5 * 3 + 0.4 * 0.3 + 0.1 * 4),
        ({"cache_read_input_tokens": 400_000, "cache_write_input_tokens": 100_000}, 0.5 * 3 + 0.4 * 0.3 + 0.1 * 4),
        ({"cache_read.input_tokens": 2_000_000}, 3 + 2 * 0.3),  # more than the input: counted beside it
    ],
)
def test_tokens_of_a_cache_have_their_own_price(tokens: dict[str, int], cost: float) -> None:
    more = {f"gen_ai__usage__{key}": value for key, value in tokens.items()}
    found = _context([_paid(1, 0, 10, "large-3", (1_000_000, 0), **more)], prices=PRICES).cost()
    assert found.amount == pytest.approx(cost)


@each(
    ("spans", "unknown"),
    [
        ([_chat(1, 0, 10)], "no model call recorded its tokens"),
        ([_paid(1, 0, 1, "small", (9, 9)), _paid(2, 0, 3, "new", (1, 1))], "no price of the model 'new'"),
        ([_paid(1, 0, 1, "", (9, 9))], "does not say its model"),
        ([_chat(1, 0, 1, gen_ai__request__model="small", llm__token_count__total=7)], "did not record its input"),
        ([_chat(1, 0, 1, gen_ai__request__model="small", llm__token_count__prompt=7)], "did not record its input"),
    ],
)
def test_a_cost_of_which_a_part_is_not_known_is_not_known(spans: list[Span], unknown: str) -> None:
    found = _context(spans, prices=PRICES).cost()
    assert found.amount is None
    assert unknown in found.unknown
    assert "traces.prices is empty" in _context(spans).cost().unknown


def test_a_number_of_tokens_without_end_is_none() -> None:
    assert _context([_chat(1, 0, 10, gen_ai__usage__input_tokens=float("inf"))]).tokens() is None
