"""Conversations: every message once, each call at the model call that asked for it."""

import json
from typing import Any

from build import each
from build.fleet import PRICES, SYSTEM, fleet_order
from build.shop import MS, SECOND, Writer, closed, messages
from tracegrade.extract.conversation import Said, Talk, conversation
from tracegrade.extract.extract import extract
from tracegrade.extract.messages import read_messages
from tracegrade.model.span import Resource
from tracegrade.rule.prices import Price, Prices
from tracegrade.web.talks import shown_talks, spent_by


def _writer() -> Writer:
    return Writer(1, SECOND, Resource({"service.name": "s"}))


def _talk(*told: tuple[list[tuple[str, str]], list[tuple[str, str]]], agent: str = "a") -> Talk:
    """One run, with model calls that were told these messages and answered those."""
    writer = _writer()
    run = writer.agent(agent, told[0][0][-1][1], told[-1][1][-1][1] if told[-1][1] else "", None)
    for heard, said in told:
        attributes: dict[str, Any] = {"gen_ai.input.messages": messages(*heard)}
        writer.model(run, MS, **attributes, **({"gen_ai.output.messages": messages(*said)} if said else {}))
    writer.done(run)
    (talk,) = conversation(extract(closed(writer)))
    return talk


def _said(talk: Talk) -> list[tuple[list[str], list[str]]]:
    return [([said.text for said in step.heard], [said.text for said in step.said]) for step in talk.steps]


def test_a_repeated_history_is_told_once() -> None:
    first = [("system", "Be kind."), ("user", "Hello")]
    second = [*first, ("assistant", "Hi"), ("user", "Weather?")]
    third = [*second, ("assistant", "Sunny"), ("user", "Hello")]
    talk = _talk((first, [("assistant", "Hi")]), (second, [("assistant", "Sunny")]), (third, [("assistant", "Bye")]))
    assert _said(talk) == [(["Hello"], ["Hi"]), (["Weather?"], ["Sunny"]), (["Hello"], ["Bye"])]
    assert (talk.system, talk.earlier, talk.opening, talk.closing) == (["Be kind."], [], None, None)


def test_a_history_that_was_written_anew_is_told_once_too() -> None:
    first = [("system", "Be kind."), ("user", "Hello")]
    anew = [("user", "Hello "), ("assistant", "Hi"), ("user", "Weather?")]
    talk = _talk((first, [("assistant", "Hi")]), (anew, [("assistant", "Sunny")]))
    assert _said(talk) == [(["Hello"], ["Hi"]), (["Weather?"], ["Sunny"])]


def test_what_earlier_turns_said_is_apart() -> None:
    talk = _talk(([("user", "One"), ("assistant", "Two"), ("user", "Three")], [("assistant", "Four")]))
    assert [said.text for said in talk.earlier] == ["One", "Two"]
    assert _said(talk) == [(["Three"], ["Four"])]


def test_the_pieces_of_a_stream_are_joined_and_answers_beside_each_other_are_not() -> None:
    streamed = _talk(([("user", "?")], [("assistant", "It is"), ("assistant", " sunny"), ("assistant", " here.")]))
    assert _said(streamed) == [(["?"], ["It is sunny here."])]
    apart = _talk(([("user", "?")], [("assistant", "One."), ("assistant", "Two.")]))
    assert _said(apart) == [(["?"], ["One.\n\nTwo."])]


def test_prompt_and_answer_of_a_run_are_told_where_no_model_call_has_them() -> None:
    writer = _writer()
    run = writer.agent("a", "Asked?", "Answered.", None)
    writer.tool(run, ("look", {"x": 1}, {"y": 2}), MS)
    writer.done(run)
    (talk,) = conversation(extract(closed(writer)))
    assert (talk.opening, talk.closing) == ("Asked?", "Answered.")
    assert [[call.name for _, call in together] for step in talk.steps for together in step.calls] == [["look"]]


def test_calls_follow_the_model_call_before_them_and_runs_are_apart() -> None:
    router, booking = conversation(extract(fleet_order(17)))
    assert [[call.name for together in step.calls for _, call in together] for step in booking.steps] == [
        ["search_flights"],
        ["hold_seat"],
        ["charge_card"],
        [],
    ]
    assert [step.model for step in booking.steps] == ["gpt-4o-mini"] * 4
    assert booking.system == [SYSTEM]
    assert (router.closing, booking.closing) == ("Order 17 is booked and paid. Have a good flight!", None)


def test_tokens_and_cost_of_each_step_add_up_to_those_of_the_trace() -> None:
    prices = Prices({name: Price(**price) for name, price in PRICES.items()})
    talks = conversation(extract(fleet_order(45)))
    whole = spent_by(talks, prices)
    steps = [item.spent for shown in shown_talks(talks, prices, None) for item in shown.steps]
    assert (whole.models, whole.input, whole.output) == (("gpt-4o",), 4500, 250)
    assert sum(step.input or 0 for step in steps) == 4500
    assert whole.cost == sum(step.cost or 0 for step in steps) == 0.055  # (4500 * 10 + 250 * 40) / 1,000,000
    assert spent_by(talks, Prices({})).cost is None


def test_a_model_call_that_two_spans_show_is_one_step() -> None:
    writer = _writer()
    run = writer.agent("a", "Hello", "Hi", None)
    writer.model(run, 10 * MS)
    outer = writer.spans[-1]
    writer.now_ns = outer.start_ns + MS
    said = {"gen_ai.input.messages": messages(("user", "Hello")), "gen_ai.usage.input_tokens": 7}
    writer.model(outer, MS, **said, **{"gen_ai.output.messages": messages(("assistant", "Hi"))})
    writer.done(run)
    (talk,) = conversation(extract(closed(writer)))
    assert [(step.span_id, step.said) for step in talk.steps] == [(outer.span_id.hex(), [Said("assistant", "Hi")])]
    assert [usage.tokens.input for usage in talk.steps[0].usages] == [7]


def test_at_most_so_many_calls_are_shown_and_the_others_are_counted() -> None:
    talks = conversation(extract(fleet_order(17)))
    for most in (0, 1, 2, 3, 100):
        shown = shown_talks(talks, Prices({}), most)
        calls = [call for talk in shown for item in talk.steps for together in item.step.calls for call in together]
        assert len(calls) + sum(talk.hidden_calls for talk in shown) == 4
        assert len(calls) <= most


@each(
    ("part", "name"),
    [
        ({"type": "blob", "mime_type": "image/png", "content": "QUJD" * 4}, "image/png, 12 bytes"),
        ({"type": "uri", "modality": "image", "uri": "https://x.example/a.png"}, "image, stored elsewhere"),
        ({"type": "image_url", "image_url": {"url": "data:image/gif;base64,QUJD"}}, "image/gif, 3 bytes"),
        ({"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}, "image_url, stored elsewhere"),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": "QUJD" * 1000}},
            "image/webp, 3 KB",
        ),
        ({"inlineData": {"mimeType": "audio/wav", "data": "QUI="}}, "audio/wav, 2 bytes"),
        ({"type": "reasoning", "content": "hm"}, None),
    ],
)
def test_an_image_is_named_by_type_and_size(part: dict[str, Any], name: str | None) -> None:
    (message,) = read_messages(json.dumps([{"role": "user", "parts": [{"type": "text", "content": "See:"}, part]}]))
    assert (message.text, message.media) == ("See:", (name,) if name else ())
