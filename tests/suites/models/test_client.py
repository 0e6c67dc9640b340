"""The client against a server on this machine: what it sends, tries again, refuses, and never says."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from suites.build.scripted_models import Answer, Script, Server, calling, completion, saying, serving, write_models
from tracegrade.suites.models import connections
from tracegrade.suites.models.asking import AskedModel
from tracegrade.suites.models.client import ModelClient, ModelError
from tracegrade.suites.models.pace import Pace, Stopped
from tracegrade.suites.models.settings import Target, load_models
from waiting import WITHIN_S

KEY = "sk-very-secret"
ERROR = {"error": {"message": f"not today,  {KEY}"}}
MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]
TOOLS: list[Any] = [{"type": "function", "function": {"name": "f"}}]


class Asking:
    """A client and what it did: ``waits`` are the pauses it made, in s, of which none takes time."""

    def __init__(self, server: Server, target: Target) -> None:
        self.server = server
        self.target = target
        self.waits: list[float] = []
        self.clock_s = 0.0
        self.stop = threading.Event()
        pace = Pace(target.provider.a_minute, self.stop, lambda: self.clock_s, self._wait)
        self.client = ModelClient(target.provider, self.stop, pace, now=lambda: 0.0)

    def _wait(self, for_s: float) -> bool:
        self.waits.append(round(for_s, 3))
        self.clock_s += for_s
        return self.stop.is_set()

    def model(self, tool_choice: Any = "required") -> AskedModel:
        return AskedModel(self.target, self.client, tool_choice, 0.5, lambda: threading.Lock())


Start = Callable[..., Asking]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setenv("KEY", KEY)
    open_servers: list[Any] = []

    def start(script: Script, **more: Any) -> Asking:
        context = serving(script)
        server = context.__enter__()
        open_servers.append(context)
        path = write_models(tmp_path, server.url, **{"api_key": "${env:KEY}", **more})
        return Asking(server, load_models(path)[0])

    yield start
    for context in open_servers:
        context.__exit__(None, None, None)


def in_turn(*answers: Answer) -> Script:
    left = list(answers)
    return lambda body: left.pop(0)


def test_a_request_has_key_model_and_body(start: Start) -> None:
    asking = start(lambda body: saying("hi"), extra_body="{seed: 7}", headers="{x-team: agents}")
    asked = asking.model("auto").ask(MESSAGES, TOOLS, ["f"])
    assert asked.reply.text == "hi"
    assert (asked.reply.tokens, asked.begun_ns <= asked.ended_ns) == ((100, 10, 110, 0, 0), True)
    (body,), (headers,) = asking.server.requests, asking.server.headers
    assert body == {
        "model": "m-1",
        "messages": MESSAGES,
        "tools": TOOLS,
        "tool_choice": "auto",
        "temperature": 0.5,
        "seed": 7,
    }
    assert (headers["authorization"], headers["x-team"]) == (f"Bearer {KEY}", "agents")
    assert asking.server.paths == ["/v1/chat/completions"]


def test_no_tools_no_choice_and_no_temperature_where_the_model_takes_none(start: Start) -> None:
    asking = start(lambda body: saying("hi"), models="{m-1: {sends_temperature: false}}")
    asking.model().ask(MESSAGES, [], [])
    assert asking.server.requests == [{"model": "m-1", "messages": MESSAGES}]


def test_required_is_refused_and_auto_is_asked_for_once_and_from_then_on(start: Start) -> None:
    def script(body: dict[str, Any]) -> Answer:
        refused = body["tool_choice"] == "required"
        return Answer({"error": {"message": "tool_choice is not supported"}}, 400) if refused else calling(("f", {}))

    asking = start(script)
    model = asking.model()
    assert [model.ask(MESSAGES, TOOLS, ["f"]).fell_back for _ in range(2)] == [True, True]
    assert [body["tool_choice"] for body in asking.server.requests] == ["required", "auto", "auto"]


JINJA = "tool_choice param requires --jinja flag"
# What servers answer to `required`, with the source of their words.
REFUSALS = [
    # https://github.com/zed-industries/zed/issues/36094
    ("OpenRouter", 404, "No endpoints found that support the provided 'tool_choice' value."),
    # oaicompat_chat_params_parse of https://github.com/ggml-org/llama.cpp, 2025; a runtime_error is answered with 500
    ("llama.cpp", 500, JINJA),
    # https://github.com/cubist38/mlx-openai-server/issues/49
    ("mlx-openai-server", 500, "Failed to process request: 400: Tool choice must be 'auto' when tools are provided."),
    # https://github.com/vllm-project/vllm/issues/24232
    ("vLLM 0.9", 500, 'Invalid value for `tool_choice`: required! Only named tools, "none", "auto" are supported.'),
    # https://github.com/vllm-project/vllm/issues/53626
    ("vLLM of gpt-oss", 501, "Only 'auto' or 'none' tool_choice is supported in response API with Harmony"),
    # https://github.com/can1357/oh-my-pi/issues/945
    ("DeepSeek", 400, "deepseek-reasoner does not support this `tool_choice`"),
    # https://github.com/AstrBotDevs/AstrBot/issues/7805
    ("Moonshot", 400, "tool_choice 'required' is incompatible with thinking enabled"),
    # https://github.com/BerriAI/litellm/issues/3876
    ("Azure", 400, "'$.tool_choice' is invalid. Please check the API reference"),
    # https://github.com/BerriAI/litellm/issues/14704
    ("LiteLLM", 400, "litellm.UnsupportedParamsError: azure does not support parameters: ['tool_choice']"),
    # https://github.com/openai/openai-python/issues/2537
    ("OpenAI", 400, "Tool choices other than 'auto' are not supported with model 'gpt-5-mini-2025-08-07'"),
    ("any", 405, "TOOL CHOICE not allowed"),
    ("any", 415, "tool_choice"),
    ("any", 422, "extra inputs are not permitted"),
    ("any", 503, "tool_choice"),
]


@pytest.mark.parametrize(("server", "status", "words"), REFUSALS)
def test_a_refusal_of_required_is_answered_with_auto_at_once(
    start: Start, server: str, status: int, words: str
) -> None:
    refused = Answer({"error": {"message": f"{'no. ' * 200}{words}", "code": status}}, status)
    asking = start(lambda body: refused if body["tool_choice"] == "required" else calling(("f", {})))
    model = asking.model()
    assert [model.ask(MESSAGES, TOOLS, ["f"]).fell_back for _ in range(2)] == [True, True], server
    assert [body["tool_choice"] for body in asking.server.requests] == ["required", "auto", "auto"]
    assert asking.waits == []


@pytest.mark.parametrize(
    ("status", "words", "choice", "requests"),
    [
        (404, "No endpoints found that support tool use.", "required", 1),  # OpenRouter, where nothing helps
        (405, "Tool calling is not supported for model", "required", 1),  # DeepInfra
        (500, "tools param requires --jinja flag", "required", 4),  # llama.cpp, where nothing helps
        (500, JINJA, "auto", 4),
        (401, "tool_choice", "required", 1),
        (403, "tool_choice", "required", 1),
        (429, "tool_choice", "required", 4),
    ],
)
def test_every_other_refusal_is_no_reason_to_ask_for_auto(
    start: Start, status: int, words: str, choice: str, requests: int
) -> None:
    asking = start(lambda body: Answer({"error": {"message": words}}, status))
    with pytest.raises(ModelError, match=f"answers {status}"):
        asking.model(choice).ask(MESSAGES, TOOLS, ["f"])
    assert [body["tool_choice"] for body in asking.server.requests] == [choice] * requests


def test_an_error_after_the_fallback_says_that_auto_was_asked_for(start: Start) -> None:
    asking = start(in_turn(Answer({"error": JINJA}, 500), calling(("f", {})), Answer({"error": "too long"}, 400)))
    model = asking.model()
    model.ask(MESSAGES, TOOLS, ["f"])
    with pytest.raises(ModelError, match="too long") as failed:
        model.ask(MESSAGES, TOOLS, ["f"])
    assert failed.value.fell_back


def test_what_auto_does_not_mend_is_the_first_error(start: Start) -> None:
    asking = start(in_turn(Answer({"error": {"message": "no such thing"}}, 400), Answer({"error": "other"}, 400)))
    with pytest.raises(ModelError, match=r"answers 400: no such thing$"):
        asking.model().ask(MESSAGES, TOOLS, ["f"])


def test_retry_after_is_kept_to(start: Start) -> None:
    later = Answer(ERROR, 429, {"Retry-After": "7"})
    at_a_time = Answer(ERROR, 503, {"Retry-After": "Thu, 01 Jan 1970 00:00:09 GMT"})
    asking = start(in_turn(later, at_a_time, saying("hi")))
    assert asking.model().ask(MESSAGES, [], []).reply.text == "hi"
    assert asking.waits == [7.0, 9.0]


def test_too_long_a_wait_is_not_kept_to(start: Start) -> None:
    asking = start(in_turn(Answer(ERROR, 429, {"Retry-After": "3600"})))
    with pytest.raises(ModelError, match="it asks to wait 3600 s, longer than 60 s"):
        asking.model().ask(MESSAGES, [], [])


def test_a_server_error_is_tried_again_with_growing_pauses_and_a_bound(start: Start) -> None:
    asking = start(lambda body: Answer(ERROR, 500))
    with pytest.raises(ModelError, match=r"answers 500: not today, \*+; tried 4 times$") as failed:
        asking.model().ask(MESSAGES, [], [])
    assert (asking.waits, len(asking.server.requests), failed.value.for_all) == ([0.5, 1.0, 2.0], 4, False)


def test_a_time_out_is_tried_again(start: Start) -> None:
    release = threading.Event()

    def script(body: dict[str, Any]) -> Answer:
        release.wait(WITHIN_S)
        return saying("late")

    asking = start(script, timeout="50ms", attempts=2)
    with pytest.raises(ModelError, match=r"no answer within 0.05 s; tried 2 times"):
        asking.model().ask(MESSAGES, [], [])
    release.set()


def test_nobody_listening_is_said_without_the_key(start: Start) -> None:
    asking = start(lambda body: saying("hi"), attempts=1)
    asking.server.shutdown()
    asking.server.socket.close()
    with pytest.raises(ModelError, match="cannot be reached: NewConnectionError") as failed:
        asking.model().ask(MESSAGES, [], [])
    assert KEY not in str(failed.value)
    assert failed.value.for_all


def unanswered(asking: Asking, times: int) -> list[bool]:
    """Whether each of so many requests, none of which is answered, ends those after it."""
    found = []
    for _ in range(times):
        with pytest.raises(ModelError) as failed:
            asking.model().ask(MESSAGES, [], [])
        found.append(failed.value.for_all)
    return found


def test_a_server_that_goes_away_after_an_answer_is_given_up_at_the_third_request(start: Start) -> None:
    asking = start(lambda body: Answer(ERROR, 500, {"Connection": "close"}), attempts=2)
    assert unanswered(asking, 1) == [False]  # an error is an answer
    asking.server.shutdown()
    asking.server.socket.close()
    assert unanswered(asking, 3) == [False, False, True]


def test_a_server_that_never_answers_in_time_is_given_up_at_the_third_request(start: Start) -> None:
    release = threading.Event()

    def script(body: dict[str, Any]) -> Answer:
        release.wait(WITHIN_S)
        return saying("late")

    asking = start(script, timeout="50ms", attempts=2)
    assert unanswered(asking, 2) == [False, False]
    with pytest.raises(
        ModelError,
        match=r"no answer within 0.05 s; tried 2 times; 3 requests in a row had no answer, so no further case",
    ) as failed:
        asking.model().ask(MESSAGES, [], [])
    assert failed.value.for_all
    release.set()


def test_time_outs_after_an_answer_are_errors_of_their_cases(start: Start) -> None:
    release = threading.Event()
    answers = [saying("hi")]

    def script(body: dict[str, Any]) -> Answer:
        if not answers:
            release.wait(WITHIN_S)
        return answers.pop() if answers else saying("late")

    asking = start(script, timeout="500ms", attempts=1)
    asking.model().ask(MESSAGES, [], [])
    assert unanswered(asking, 4) == [False] * 4
    release.set()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_is_wrong_for_every_case_is_not_tried_again(start: Start, status: int) -> None:
    asking = start(lambda body: Answer(ERROR, status))
    with pytest.raises(ModelError, match=rf"answers {status}: not today, \*+$") as failed:
        asking.model().ask(MESSAGES, TOOLS, ["f"])
    assert (failed.value.for_all, len(asking.server.requests)) == (True, 1)


def test_the_key_follows_no_redirect(start: Start) -> None:
    there = start(lambda body: saying("caught"))
    here = start(lambda body: Answer(b"", 307, {"Location": there.server.url}))
    with pytest.raises(ModelError, match="are not followed, since the key would go there"):
        here.model().ask(MESSAGES, [], [])
    assert there.server.requests == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "answers something that is not JSON"),
        (b'{"choices": [NaN]}', "answers something that is not JSON"),
        (b"\xff", "answers something that is not JSON"),
        (b"[" * 100_000, "answers something that is not JSON"),
        (b"[]", "answers JSON that is not an object"),
        (b'{"error": {"message": "quota"}}', "answers an error: quota"),
        (b'{"choices": []}', "the answer has no choices"),
        (b'{"choices": [{}]}', "the first choice of the answer has no message"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(start: Start, body: bytes, message: str) -> None:
    asking = start(lambda _: Answer(body))
    with pytest.raises(ModelError, match=message) as failed:
        asking.model().ask(MESSAGES, [], [])
    assert not failed.value.for_all


def test_too_large_an_answer_is_not_read_to_its_end(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_ANSWER_BYTES", 1024 * 1024)
    asking = start(lambda body: saying("x" * 2_000_000))
    with pytest.raises(ModelError, match="answers more than 1 MiB"):
        asking.model().ask(MESSAGES, [], [])


def test_a_key_that_comes_back_is_masked(start: Start) -> None:
    asking = start(lambda body: completion({"content": f"your key is {KEY}"}, "stop"))
    assert asking.model().ask(MESSAGES, [], []).reply.text == "your key is **********"


def test_requests_are_spread_over_a_minute(start: Start) -> None:
    asking = start(lambda body: saying("hi"), a_minute=30)
    for _ in range(3):
        asking.model().ask(MESSAGES, [], [])
    assert asking.waits == [2.0, 2.0]


def test_waiting_ends_when_the_run_does(start: Start) -> None:
    asking = start(lambda body: Answer(ERROR, 429, {"Retry-After": "7"}))
    asking.stop.set()
    with pytest.raises(Stopped):
        asking.model().ask(MESSAGES, [], [])
    assert asking.server.requests == []


def test_the_end_of_a_run_breaks_off_requests_under_way(start: Start) -> None:
    came, left = threading.Event(), threading.Event()

    def hang(body: Any) -> Answer:
        came.set()
        assert left.wait(WITHIN_S)
        return saying("late")

    asking = start(hang)
    ended: list[BaseException] = []

    def ask() -> None:
        try:
            asking.model().ask(MESSAGES, TOOLS, ["f"])
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert came.wait(WITHIN_S)
    asking.stop.set()
    asking.client.close()
    thread.join(WITHIN_S)
    left.set()
    assert not thread.is_alive()
    assert [type(error) for error in ended] == [Stopped]
    with pytest.raises(Stopped):  # nothing is connected any more
        asking.model().ask(MESSAGES, TOOLS, ["f"])
    assert len(asking.server.requests) == 1
