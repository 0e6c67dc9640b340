import json
from hashlib import blake2b
from typing import Any

import build
from build import span_id
from tracegrade.extract.extract import extract
from tracegrade.extract.run_summaries import run_summaries
from tracegrade.model.trace_result import RunSummary


def agent(number: int, name: str, prompt: str = "", **more: Any) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    if prompt:
        message = {"role": "user", "parts": [{"type": "text", "content": prompt}]}
        attributes["gen_ai.input.messages"] = json.dumps([message])
    return {"id": number, "name": name, "attributes": attributes, **more}


def chat(number: int, parent: int, **usage: int) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.response.model": "gpt-4o"}
    tokens = {f"gen_ai.usage.{name}": count for name, count in usage.items()}
    return {"id": number, "parent": parent, "name": "chat", "attributes": attributes | tokens}


def test_a_run_has_what_its_own_model_calls_took_and_not_what_those_of_its_sub_agents_did() -> None:
    trace = build.trace(
        [
            agent(1, "outer", "Order  a\nbook", at=[10, 60]),
            chat(2, 1, input_tokens=10, output_tokens=2),
            chat(3, 1, input_tokens=20),
            agent(4, "inner", parent=1, at=[20, 45]),
            chat(5, 4, input_tokens=100, output_tokens=50),
        ]
    )
    # As worked out apart from the code: blake2b("Order a book"), 8 bytes.
    asked = blake2b(b"Order a book", digest_size=8).hexdigest()
    assert run_summaries(extract(trace)) == [
        RunSummary(span_id(1), "outer", None, None, "gpt-4o", asked, 30, 2, 50_000_000),
        RunSummary(span_id(4), "inner", span_id(1), None, "gpt-4o", None, 100, 50, 25_000_000),
    ]


def test_of_the_input_tokens_it_is_known_which_a_cache_held_or_took() -> None:
    first = {"cache_read.input_tokens": 700, "cache_write.input_tokens": 200}
    second = {"cache_read_input_tokens": 50, "cache_write_input_tokens": 0}
    trace = build.trace(
        [
            agent(1, "cached", at=[0, 5]),
            chat(2, 1, input_tokens=1000, output_tokens=1, **first),
            chat(3, 1, input_tokens=100, output_tokens=1, **second),
        ]
    )
    (run,) = run_summaries(extract(trace))
    assert (run.input_tokens, run.cached_input_tokens, run.cache_write_tokens) == (1100, 750, 200)


def test_what_was_not_recorded_is_none() -> None:
    total = {"id": 2, "parent": 1, "attributes": {"gen_ai.operation.name": "chat", "llm.token_count.total": 7}}
    trace = build.trace([agent(1, "quiet", at=[0, 5]), total])
    assert run_summaries(extract(trace)) == [RunSummary(span_id(1), "quiet")], "a total is neither, 0 is no time"
