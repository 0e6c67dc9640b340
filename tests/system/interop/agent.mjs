// An agent on Node, instrumented with the unmodified OpenTelemetry SDK: one run with two tool calls, over OTLP/HTTP in JSON.
//
// Usage: node agent.mjs ENDPOINT   where ENDPOINT is http://host:port; prints what became of the export, and each span
// as the SDK held it.
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";

const exporter = new OTLPTraceExporter({ url: `${process.argv[2]}/v1/traces`, timeoutMillis: 10_000 });
const kept = new InMemorySpanExporter();
const provider = new BasicTracerProvider({
  resource: resourceFromAttributes({ "service.name": "demo-shop-node", "service.version": "2.0" }),
  spanProcessors: [new BatchSpanProcessor(exporter), new SimpleSpanProcessor(kept)],
});
const tracer = provider.getTracer("node-agent", "1.0");

const parts = (role, ...said) => [{ role, parts: said }];
const asked = (id, name, args) => ({ type: "tool_call", id, name, arguments: args });
const prompt = parts("user", { type: "text", content: "Please order 2 of A-1 for user 123." });

// Node has no active context unless one is installed, so that the parent is given by hand.
function operation(parent, operationName, target, attributes, kind = SpanKind.INTERNAL) {
  const under = parent ? trace.setSpan(context.active(), parent) : context.active();
  const all = { "gen_ai.operation.name": operationName, "gen_ai.provider.name": "demo", ...attributes };
  return tracer.startSpan(`${operationName} ${target}`, { kind, attributes: all }, under);
}

const agent = operation(null, "invoke_agent", "order-agent", {
  "gen_ai.agent.name": "order-agent",
  "gen_ai.input.messages": JSON.stringify(prompt),
});

function chat(messages, said) {
  const span = operation(agent, "chat", "scripted-model", {
    "gen_ai.request.model": "scripted-model",
    "gen_ai.request.temperature": 0.25,
    "gen_ai.usage.input_tokens": 120,
    "gen_ai.input.messages": JSON.stringify(messages),
    "gen_ai.output.messages": JSON.stringify(parts("assistant", said)),
  }, SpanKind.CLIENT);
  span.end();
}

function execute(id, name, args, result, more = {}) {
  chat(prompt, asked(id, name, args));
  const span = operation(agent, "execute_tool", name, {
    "gen_ai.tool.name": name,
    "gen_ai.tool.call.id": id,
    "gen_ai.tool.call.arguments": JSON.stringify(args),
    "gen_ai.tool.call.result": JSON.stringify(result),
    ...more,
  });
  span.addEvent("looked up", { "stock.count": 7 });
  span.setStatus({ code: SpanStatusCode.OK });
  span.end();
}

execute("call_0", "validate_user", { user_id: 123 }, { valid: true }, {
  "demo.negative": -3,
  "demo.flag": true,
  "demo.widest": Number.MAX_SAFE_INTEGER,
  "demo.mixed_numbers": [1, 2.5],
  "demo.texts": ["é", "日本", "🚀"],
});
execute("call_1", "create_order", { user_id: 123, sku: "A-1", qty: 5 }, { status: "ok", order_id: "ORD-1" });
chat(prompt, { type: "text", content: "Order ORD-1 is on its way." });
agent.setAttribute("gen_ai.output.messages", JSON.stringify(parts("assistant", { type: "text", content: "Done." })));
agent.end();

let result = "sent";
await provider.forceFlush().catch((error) => { result = String(error); });
const spans = kept.getFinishedSpans().map((span) => ({
  span_id: span.spanContext().spanId,
  parent_span_id: span.parentSpanContext?.spanId ?? "",
  name: span.name,
  attributes: span.attributes,
}));
await provider.shutdown();
console.log(JSON.stringify({ trace_id: agent.spanContext().traceId, result, spans }));
