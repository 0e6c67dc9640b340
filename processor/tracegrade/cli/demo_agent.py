"""The demo's agent: an order desk with three tools and a scripted model, instrumented with the OpenTelemetry SDK.

It writes what the GenAI semantic conventions ask for and nothing of ours: any agent instrumented that way looks alike.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, Tracer

SERVICE = "demo-shop"
AGENT = "order-agent"
PROMPT = "Please order 2 of A-1 for user 123."

Arguments = dict[str, object]


@dataclass(frozen=True)
class Step:
    """One tool call that the scripted model asks for."""

    tool: str
    arguments: Arguments


@dataclass(frozen=True)
class Script:
    """What the model does in one run; ``title`` says it to people."""

    title: str
    steps: tuple[Step, ...]


_VALIDATE = Step("validate_user", {"user_id": 123})
_CHECK = Step("check_inventory", {"sku": "A-1", "qty": 2})
_CREATE = Step("create_order", {"user_id": 123, "sku": "A-1", "qty": 2})
_CREATE_FIVE = Step("create_order", {"user_id": 123, "sku": "A-1", "qty": 5})

GOOD = Script("validates, checks, creates", (_VALIDATE, _CHECK, _CREATE))
WRONG_ORDER = Script("creates the order before it validates the user", (_CHECK, _CREATE, _VALIDATE))
WRONG_QUANTITY = Script("orders 5 where 2 were asked for", (_VALIDATE, _CHECK, _CREATE_FIVE))
FORGETFUL = Script("never creates the order", (_VALIDATE, _CHECK))

RUNS = (GOOD, GOOD, WRONG_ORDER, GOOD, WRONG_QUANTITY, GOOD, FORGETFUL, GOOD)

_TOOLS: dict[str, Callable[..., object]] = {
    "validate_user": lambda user_id: {"valid": True, "user_id": user_id},
    "check_inventory": lambda sku, qty: {"sku": sku, "available": True},
    "create_order": lambda user_id, sku, qty: {"status": "ok", "order_id": "ORD-1"},
}


class DemoAgent:
    """Runs scripts and exports their spans."""

    def __init__(self, endpoint: str, exporter: SpanExporter | None = None) -> None:
        """Send to an OTLP/gRPC receiver on loopback.

        Args:
            endpoint: its host:port.
            exporter: sends instead, wherever it likes.
        """
        exporter = exporter or OTLPSpanExporter(endpoint=f"http://{endpoint}", insecure=True)
        self._provider = TracerProvider(resource=Resource.create({"service.name": SERVICE, "service.version": "1.0"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("demo-agent")

    def run(self, script: Script) -> str:
        """One agent run; its trace id in hex."""
        with _operation(self._tracer, "invoke_agent", AGENT) as root:
            root.set_attribute("gen_ai.agent.name", AGENT)
            messages: list[dict[str, object]] = [{"role": "user", "parts": [{"type": "text", "content": PROMPT}]}]
            for number, step in enumerate(script.steps):
                call_id = f"call_{number}"
                asked: dict[str, object] = {
                    "type": "tool_call",
                    "id": call_id,
                    "name": step.tool,
                    "arguments": step.arguments,
                }
                self._chat(messages, asked)
                result = self._execute(step, call_id)
                messages.append({"role": "assistant", "parts": [asked]})
                answered = {"type": "tool_call_response", "id": call_id, "response": result}
                messages.append({"role": "tool", "parts": [answered]})
            answer = "Order ORD-1 is on its way." if "create_order" in _tools_of(script) else "All is in stock."
            self._chat(messages, {"type": "text", "content": answer})
            root.set_attribute("gen_ai.input.messages", json.dumps(messages[:1]))
            root.set_attribute("gen_ai.output.messages", _assistant({"type": "text", "content": answer}))
            return f"{root.get_span_context().trace_id:032x}"

    def flush(self) -> None:
        """Return once every span was answered by the receiver."""
        self._provider.shutdown()

    def _chat(self, messages: list[dict[str, object]], said: dict[str, object]) -> None:
        with _operation(self._tracer, "chat", "scripted-model", SpanKind.CLIENT) as span:
            span.set_attribute("gen_ai.request.model", "scripted-model")
            span.set_attribute("gen_ai.input.messages", json.dumps(messages))
            span.set_attribute("gen_ai.output.messages", _assistant(said))

    def _execute(self, step: Step, call_id: str) -> object:
        with _operation(self._tracer, "execute_tool", step.tool) as span:
            span.set_attribute("gen_ai.tool.name", step.tool)
            span.set_attribute("gen_ai.tool.call.id", call_id)
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps(step.arguments))
            result = _TOOLS[step.tool](**step.arguments)
            span.set_attribute("gen_ai.tool.call.result", json.dumps(result))
            return result


@contextmanager
def _operation(tracer: Tracer, operation: str, target: str, kind: SpanKind = SpanKind.INTERNAL) -> Iterator[Span]:
    with tracer.start_as_current_span(f"{operation} {target}", kind=kind) as span:
        span.set_attribute("gen_ai.operation.name", operation)
        span.set_attribute("gen_ai.provider.name", "demo")
        yield span


def _assistant(part: dict[str, object]) -> str:
    return json.dumps([{"role": "assistant", "parts": [part], "finish_reason": "stop"}])


def _tools_of(script: Script) -> set[str]:
    return {step.tool for step in script.steps}
