"""One run of a case: a model is asked, its calls are answered by mocks, until it is done; all of it is a trace.

A case of one turn asks once. A case of several turns goes on until the model calls an expected tool, calls nothing, or
has been asked ``max_rounds`` times. A tool without a mock response answers with an error that says so.

Source: the rounds are those of Maheidem/llm-benchmark-studio, routers/tool_eval.py.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from opentelemetry.trace import Span

from tracegrade import semconv as s
from tracegrade.model.json_value import JsonValue
from tracegrade.suites.imported import JsonObject
from tracegrade.suites.models.asking import FELL_BACK, Asked, ToolChoice
from tracegrade.suites.models.client import ModelError
from tracegrade.suites.models.reply import Reply, RequestedCall
from tracegrade.suites.models.settings import Target
from tracegrade.suites.recording import (
    CaseTrace,
    Message,
    answered,
    as_json,
    assistant,
    note_case,
    note_error,
    note_reply,
    said,
)
from tracegrade.suites.suite import Suite, SuiteCase

_LONGEST_NOTE = 500


class Model(Protocol):
    """What `AskedModel` does."""

    target: Target
    tool_choice: ToolChoice
    temperature: float

    def ask(self, messages: Sequence[JsonValue], tools: Sequence[JsonValue], names: Sequence[str]) -> Asked:
        """The model's reply."""
        ...


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a case, its spans as an OTLP request; ``problem`` says why there was no answer, "" if there was one.

    ``logs`` are the log records of the trace as another, with ``log_records`` in it.
    """

    trace_id: bytes
    payload: bytes
    spans: int
    problem: str = ""
    logs: bytes = b""
    log_records: int = 0


def run_case(suite: Suite, case: SuiteCase, model: Model, system_prompt: str, trace_id: bytes, repetition: int) -> Ran:
    """Run `case` once.

    Raises:
        ModelError: no model can be asked this way, whatever the case; nothing is recorded.
        Stopped: the run ended meanwhile.
    """
    return _Conversation(suite, case, model, system_prompt).run(trace_id, repetition)


class _Conversation:
    def __init__(self, suite: Suite, case: SuiteCase, model: Model, system_prompt: str) -> None:
        self._suite = suite
        self._case = case
        self._model = model
        self._system_prompt = system_prompt
        # The conversation so far, as the interface has it and as the conventions have it.
        self._sent: list[JsonValue] = []
        if system_prompt:
            self._sent.append({"role": "system", "content": system_prompt})
        self._sent.append({"role": "user", "content": case.prompt})
        self._shown: list[Message] = [said("user", case.prompt)]
        self._notes: dict[str, None] = {}
        self._final = ""
        self._call_ids: set[str] = set()

    def run(self, trace_id: bytes, repetition: int) -> Ran:
        model, problem = self._model, ""
        trace = CaseTrace(trace_id, self._suite.name)
        with trace.span("invoke_agent", model.target.key) as root:
            note_case(root, model.target.key, model.target.key, self._case, repetition)
            if self._suite.tools:
                root.set_attribute(s.TOOL_DEFINITIONS, as_json([*self._suite.tools]))
            try:
                self._rounds(trace)
                root.set_attribute(s.OUTPUT_MESSAGES, as_json([said("assistant", self._final)]))
            except ModelError as error:
                if error.for_all:
                    raise
                problem = str(error)
                note_error(root, type(error).__name__, problem)
            if self._notes:
                root.set_attribute(s.SUITE_NOTES, list(self._notes))
        return Ran(trace_id, *trace.payload(), problem)

    def _rounds(self, trace: CaseTrace) -> None:
        case = self._case
        for _ in range(case.max_rounds):
            calls = self._chat(trace)
            if not calls or case.mocks is None:
                return
            for call in calls:
                self._answer(trace, call, case.mocks)
            expected = {name.lower() for name in case.expected}
            if any(call.name.lower() in expected for call in calls):
                return

    def _chat(self, trace: CaseTrace) -> list[RequestedCall]:
        """Ask the model once; the calls it asks for."""
        suite, model_id, begun_ns = self._suite, self._model.target.model_id, time.time_ns()
        try:
            asked = self._model.ask(self._sent, suite.tools, suite.tool_names)
        except ModelError as error:
            with trace.chat(model_id, begun_ns, time.time_ns()) as span:
                self._note_request(span)
                note_error(span, type(error).__name__, str(error))
            if error.fell_back:
                self._notes[FELL_BACK] = None
            raise
        reply = self._with_own_ids(asked.reply)
        with trace.chat(model_id, asked.begun_ns, asked.ended_ns) as span:
            self._note_request(span)
            note_reply(span, reply)
        if asked.fell_back:
            self._notes[FELL_BACK] = None
        for call in reply.calls:
            if call.repaired:
                text = f": {call.unreadable}" if call.unreadable else ""
                self._notes[f"{call.name}: {call.repaired}{text}"[:_LONGEST_NOTE]] = None
        if reply.refusal:
            self._notes[f"refused: {reply.refusal}"[:_LONGEST_NOTE]] = None
        self._final = reply.text or reply.refusal
        self._shown.append(assistant(reply))
        self._sent.append(_sent_again(reply.text, reply.calls))
        return reply.calls

    def _with_own_ids(self, reply: Reply) -> Reply:
        """`reply` with an id for each call that no call before it has; some servers begin at 0 with every answer."""
        calls = []
        for call in reply.calls:
            number, own = 1, call.id
            while own in self._call_ids:
                number += 1
                own = f"{call.id}-{number}"
            self._call_ids.add(own)
            calls.append(replace(call, id=own))
        return replace(reply, calls=calls)

    def _note_request(self, span: Span) -> None:
        model = self._model
        span.set_attribute("gen_ai.provider.name", model.target.provider_name)
        span.set_attribute(s.REQUEST_MODEL, model.target.model_id)
        span.set_attribute("gen_ai.request.temperature", model.temperature)
        span.set_attribute(s.INPUT_MESSAGES, as_json([*self._shown]))
        if self._system_prompt:
            span.set_attribute(s.SYSTEM_INSTRUCTIONS, as_json([{"type": "text", "content": self._system_prompt}]))

    def _answer(self, trace: CaseTrace, call: RequestedCall, mocks: Mapping[str, JsonValue]) -> None:
        """Answer a call by its mock response."""
        response: JsonValue
        with trace.span("execute_tool", call.name) as span:
            span.set_attribute(s.TOOL_NAME, call.name)
            span.set_attribute(s.TOOL_CALL_ID, call.id)
            span.set_attribute(s.TOOL_CALL_ARGUMENTS, as_json(call.arguments))
            if call.name in mocks:
                response = mocks[call.name]
                span.set_attribute(s.TOOL_CALL_RESULT, as_json(response))
            elif call.name.lower() in {name.lower() for name in self._case.expected}:
                return  # it ends the chain, and nobody reads its answer
            else:
                problem = f"no mock response for the tool {call.name!r}"
                response = {"error": problem}
                span.set_attribute(s.TOOL_CALL_RESULT, as_json(response))
                note_error(span, "no_mock_response", problem)
                self._notes[problem] = None
        self._shown.append(answered(call.id, response))
        text = response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)
        self._sent.append({"role": "tool", "tool_call_id": call.id, "content": text})


def _sent_again(text: str, calls: Sequence[RequestedCall]) -> JsonValue:
    """What the model said, as it is sent back with the next request: in the form of the interface, repaired."""
    message: JsonObject = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call in calls
        ]
    return message
