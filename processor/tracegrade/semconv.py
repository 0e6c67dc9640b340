"""Attribute names that we write, and those that we read in several places, each with its source.

A name that only one dialect reads is in that dialect's file, but for the GenAI conventions'.
"""

# --- What we read --------------------------------------------------------------------------------------------------

# OTel GenAI. Source: open-telemetry/semantic-conventions-genai, model/gen-ai/{spans,registry,events}.yaml; the
# per-message events from open-telemetry/semantic-conventions v1.36.0, model/gen-ai/events.yaml.
OPERATION_NAME = "gen_ai.operation.name"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT = "gen_ai.tool.call.result"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
# What Sentry's SDKs write in place of these, and of a model's answer. Source: sentry-javascript 10,
# packages/core/src/tracing/ai/gen-ai-attributes.ts.
TOOL_INPUT = "gen_ai.tool.input"
TOOL_OUTPUT = "gen_ai.tool.output"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
AGENT_VERSION = "gen_ai.agent.version"
CONVERSATION_ID = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
# At the end of an attribute's name: the value is stored elsewhere, and this refers to it. Source: pull request 490 of
# semantic-conventions-genai, and what opentelemetry-util-genai writes.
REFERENCE = "_ref"
REFERENCES = tuple(key + REFERENCE for key in (INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_CALL_ARGUMENTS, TOOL_CALL_RESULT))
MESSAGE_EVENT_SYSTEM = "gen_ai.system.message"
MESSAGE_EVENT_USER = "gen_ai.user.message"
MESSAGE_EVENT_ASSISTANT = "gen_ai.assistant.message"
MESSAGE_EVENT_TOOL = "gen_ai.tool.message"
MESSAGE_EVENT_CHOICE = "gen_ai.choice"
# An event's whole body as JSON text in one attribute. Source: semantic-conventions v1.27 to v1.29, and what
# azure-ai-inference 1.0.0b9 writes.
EVENT_CONTENT = "gen_ai.event.content"
INFERENCE_EVENT = "gen_ai.client.inference.operation.details"
# Whole conversations as JSON until v1.27: events with one attribute each; the attributes alone are LangSmith's too.
PROMPT_EVENT = "gen_ai.content.prompt"
COMPLETION_EVENT = "gen_ai.content.completion"
PROMPT_CONTENT = "gen_ai.prompt"
COMPLETION_CONTENT = "gen_ai.completion"
# Written by Strands and OpenLIT beside the conventions. Source: strands-agents 1.62.0, telemetry/tracer.py.
TOOL_STATUS = "gen_ai.tool.status"
TOOL_JSON_SCHEMA = "gen_ai.tool.json_schema"

# Written of handoffs. Source: opentelemetry-instrumentation-openai-agents-v2 0.1.0 and OpenLLMetry's
# opentelemetry-instrumentation-openai-agents 0.62.4.
HANDOFF_FROM = "gen_ai.handoff.from_agent"
HANDOFF_TO = "gen_ai.handoff.to_agent"
# The same on execute_tool spans. Source: pull requests 98 and 447 of semantic-conventions-genai.
HANDOFF_SOURCE_NAME = "gen_ai.agent.handoff.source.name"
HANDOFF_TARGET_NAME = "gen_ai.agent.handoff.target.name"
TRANSFER_TARGET_NAME = "gen_ai.transfer.target.name"
TRANSFER_MODE = "gen_ai.transfer.mode"

# Written by TanStack AI of a tool's call. Source: @tanstack/ai, otel middleware.
TANSTACK_OUTCOME = "tanstack.ai.tool.outcome"

# Written by OpenLIT. Source: openlit 1.45.0, instrumentation/langgraph and instrumentation/langchain.
WORKFLOW_INPUT = "gen_ai.workflow.input"

# Pydantic AI before format 3. Source: pydantic-ai-slim 1.0.18, models/instrumented.py and agent/__init__.py.
PYDANTIC_AGENT_NAME = "agent_name"

# Of every span that Logfire makes. Source: logfire 5.4.0, _internal/integrations/openai_agents.py.
LOGFIRE_TEMPLATE = "logfire.msg_template"

# Events. Source: open-telemetry/opentelemetry-proto, logs.proto; before its field event_name there was the attribute.
EVENT_NAME = "event.name"
# Where the body of a log record is kept that is an object as JSON text, as logging libraries write it.
LOG_BODY = "body"
# Numbers the events of a process, whose clock counts milliseconds. Source: Claude Code's monitoring page.
EVENT_SEQUENCE = "event.sequence"

# The body of a log event that is named after its scope, to which content was moved from a span. Source: AWS Distro for
# OpenTelemetry Python 0.21.0, llo_handler.py.
MOVED_INPUT = "input"
MOVED_OUTPUT = "output"
MOVED_CONTENT = (MOVED_INPUT, MOVED_OUTPUT)

# Tokens, in and out. Source: open-telemetry/semantic-conventions-genai, model/gen-ai/registry.yaml, its names until
# semantic-conventions v1.26, and openinference-semantic-conventions.
TOKENS_IN = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
TOKENS_OUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
TOKENS_TOTAL = ("llm.token_count.total", "llm.usage.total_tokens")
# Parts of the input: read from the provider's cache, and written to it. Sources: the registry, with the names that it
# had before; opentelemetry-semantic-conventions-ai 0.4, SpanAttributes; openinference-semantic-conventions; and what
# Strands Agents 1 and Vercel's AI SDK 5 to 7 write.
TOKENS_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.inputTokenDetails.cacheReadTokens",
    "ai.usage.cachedInputTokens",
)
TOKENS_CACHE_WRITE = (
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "llm.token_count.prompt_details.cache_write",
    "ai.usage.inputTokenDetails.cacheWriteTokens",
)
TOKEN_USAGE = (*TOKENS_IN, *TOKENS_OUT, *TOKENS_TOTAL, *TOKENS_CACHED, *TOKENS_CACHE_WRITE)

# Of the resource. Source: open-telemetry/semantic-conventions, model/service/registry.yaml.
SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"
# The second is the name before semantic conventions 1.27; senders still use it.
ENVIRONMENTS = ("deployment.environment.name", "deployment.environment")

# Of every trace, whatever the rules: what clauses other than ``attributes`` read, and what every agent run says.
ALWAYS_READ = frozenset((SERVICE_NAME, SERVICE_VERSION, *ENVIRONMENTS, *TOKEN_USAGE))

# Model Context Protocol. Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md.
MCP_METHOD = "mcp.method.name"
JSONRPC_REQUEST_ID = "jsonrpc.request.id"
MCP_SESSION_ID = "mcp.session.id"
# FastMCP's name for a mounted server's tool there. Source: fastmcp 4.1, server/telemetry.py.
FASTMCP_ORIGINAL_NAME = "fastmcp.delegate.original_name"

# Errors. Source: open-telemetry/semantic-conventions, docs/exceptions/exceptions-spans.md.
EXCEPTION_EVENT = "exception"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"
ERROR_MESSAGE = "error.message"

# OpenInference. Source: Arize-ai/openinference, openinference-semantic-conventions 0.1.42, trace/__init__.py.
OPENINFERENCE_KIND = "openinference.span.kind"
OI_TOOL_NAME = "tool.name"
OI_TOOL_PARAMETERS = "tool.parameters"
OI_TOOL_SYNTHESIZED = "tool.synthesized"
OI_INPUT = "input.value"
OI_OUTPUT = "output.value"
OI_METADATA = "metadata"
SESSION_ID = "session.id"
USER_ID = "user.id"
ENDUSER_ID = "enduser.id"

# Vercel AI SDK before 7, and its legacy integration. Source: vercel/ai, packages/otel, legacy-open-telemetry.ts.
OPERATION = "operation.name"  # the operation, a space and the function id; AgentOps' too
AI_FUNCTION_ID = "ai.telemetry.functionId"
AI_TOOL_RESULT = "ai.toolCall.result"

# The tool by which smolagents end a run.
SMOLAGENTS_FINAL_ANSWER = "final_answer"

# Haystack. Source: haystack-ai 3.4.1, components/agents/agent.py and tool_calling.py, core/pipeline/base.py.
HAYSTACK_TOOL_ERROR = "haystack.tool.error"

# Claude Code and the Claude Agent SDK. Source: Claude Code's documentation, monitoring-usage, "Traces (beta)".
SPAN_TYPE = "span.type"  # VoltAgent's too
CLAUDE_TOOL_USE_ID = "tool_use_id"

# OpenLLMetry. Source: opentelemetry-semantic-conventions-ai 0.5.1 and, for the flattened messages, 0.4.9;
# opentelemetry-instrumentation-llamaindex 0.62.4, event_emitter.py.
TRACELOOP_ENTITY_NAME = "traceloop.entity.name"
TRACELOOP_INPUT = "traceloop.entity.input"

# LangGraph's metadata, as langchain-azure-ai writes them. Source: langchain-azure-ai 1.2.12, callbacks/tracers.
LANGGRAPH_NODE = "metadata.langgraph_node"
# The same in the metadata of every run. Source: langgraph 1.2, pregel/_algo.py.
GRAPH_NODE = "langgraph_node"
# The agent in whose run something happens, in the metadata of every run. Source: langchain 1.2, agents/factory.py.
LANGCHAIN_AGENT = "lc_agent_name"

# The same as Netra writes it. Source: the spans of netra-sdk 1.2.2.
NETRA_LANGCHAIN_AGENT = "netra.association.properties.lc_agent_name"

# What an application does with models, which is its agent. Source: Axiom's AI SDK, withSpan.
AXIOM_CAPABILITY = "gen_ai.capability.name"

# Spring AI, through Micrometer. Source: spring-projects/spring-ai, ToolCallingObservationDocumentation.java,
# McpServerToolObservationDocumentation.java.
SPRING_KIND = "spring.ai.kind"
SPRING_MCP_SERVER = "mcp_server_tool_call"  # the kind of an MCP server's span

# VoltAgent. Source: @voltagent/core 2.10.0, agent/open-telemetry/trace-context.ts.
TOOL_CALL_ID_BARE = "tool.call.id"  # AgentOps' too

# The metadata of LangChain's runs, as Laminar and Respan write them. Source: lmnr 0.8.2; respan-tracing 2.
LANGCHAIN_METADATA = "langchain.metadata"

# --- What we write -------------------------------------------------------------------------------------------------

# Our own telemetry is recognised by this scope name, passed on and not judged.
OWN_SCOPE = "tracegrade"
ACCESS_SCOPE = "tracegrade.access"  # of the access log
ACCESS_EVENT = "tracegrade.access"

# What was redacted before it was journalled, as JSON of {place: {detector: count}}; of spans, log records and so on.
REDACTED = "tracegrade.redacted"

# Names the instance that sent a request: a request that comes back to it is a loop. Also a gRPC metadata key.
INSTANCE_HEADER = "x-tracegrade-instance"
# Names the instances whose requests the sender has taken lately, separated by commas (`receive.circle`).
HEARD_HEADER = "x-tracegrade-heard"

# The evaluation event. Source: open-telemetry/semantic-conventions-genai, model/gen-ai/events.yaml.
EVALUATION_EVENT = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_SCORE_VALUE = "gen_ai.evaluation.score.value"
EVALUATION_SCORE_LABEL = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"
ERROR_TYPE = "error.type"
ERROR_TYPE_OTHER = "_OTHER"  # the convention's word for an error without a class of its own

# The operation name of a carrier span. Source: proposed for the GenAI conventions; OpenSearch's SDK writes it too.
OPERATION_EVALUATION = "evaluation"

# OpenInference's evaluations on a carrier span. Source: Arize-ai/openinference, spec/annotations.md.
SPAN_KIND_EVALUATOR = "EVALUATOR"
EVALUATIONS_PREFIX = {"trace": "trace.evaluations", "session": "session.evaluations"}  # any other subject: a span
EVALUATIONS_SPAN_PREFIX = "evaluations"
ANNOTATOR_KIND_CODE = "CODE"

# Ours.
RULE_ID = "tracegrade.rule.id"
RULE_HASH = "tracegrade.rule.hash"
RULE_LEVEL = "tracegrade.rule.level"
SUBJECT_KIND = "tracegrade.subject.kind"
SUBJECT_ID = "tracegrade.subject.id"
RUN = "tracegrade.run"
OUTCOME = "tracegrade.outcome"
EVALUATION_ID = "tracegrade.evaluation.id"
EVALUATION_IDS = "tracegrade.evaluation.ids"
EVALUATOR = "tracegrade.evaluator"
CASE = "tracegrade.case"
THRESHOLD = "tracegrade.threshold"
DETAILS = "tracegrade.details"
REVISION = "tracegrade.revision"
REPLACES = "tracegrade.replaces"  # the revision that this one supersedes
COMPLETE = "tracegrade.complete"
CLOSE_REASON = "tracegrade.close_reason"
MISSING = "tracegrade.missing"
TENANT = "tracegrade.tenant"

# A case of a suite that was run: its scope, so that such a trace is judged though it is ours, and what its root says.
SUITE_SCOPE = "tracegrade.suite"
CASE_ID = "tracegrade.case.id"
SUITE_MODEL = "tracegrade.suite.model"
SUITE_REPETITION = "tracegrade.suite.repetition"
SUITE_NOTES = "tracegrade.suite.notes"
SUITE_EXPECTED = "tracegrade.suite.expected"
# Of a run of a case by one's own agent: how its command ended, and the trace ids under which its spans came.
SUITE_EXIT_CODE = "tracegrade.suite.exit_code"
SUITE_STDERR = "tracegrade.suite.stderr"
SUITE_TRACE_IDS = "tracegrade.suite.trace_ids"
SUITE_ATTRIBUTES = frozenset(
    {
        CASE_ID,
        SUITE_MODEL,
        SUITE_REPETITION,
        SUITE_NOTES,
        SUITE_EXPECTED,
        SUITE_EXIT_CODE,
        SUITE_STDERR,
        SUITE_TRACE_IDS,
    }
)
# What an agent's resource says of the run of a case that it is in, as its environment told it.
SUITE_UNIT = "tracegrade.suite.unit"

# The alert event: one when an alert begins to fire, one when it is resolved.
# No span has it: texts that people type are redacted as its value would be.
TYPED_TEXT = "tracegrade.comment"
ALERT_EVENT = "tracegrade.alert"
ALERT_STATE = "tracegrade.alert.state"
ALERT_KEY = "tracegrade.alert.key"
ALERT_KIND = "tracegrade.alert.kind"
ALERT_OF = "tracegrade.alert.of"
ALERT_VALUE = "tracegrade.alert.value"
ALERT_LOW = "tracegrade.alert.low"
ALERT_HIGH = "tracegrade.alert.high"
ALERT_BOUND = "tracegrade.alert.bound"
ALERT_WAS = "tracegrade.alert.was"
ALERT_SAMPLES = "tracegrade.alert.samples"
ALERT_TRACES = "tracegrade.alert.traces"
ALERT_CHANGED = "tracegrade.alert.changed"
ALERT_MEMBERS = "tracegrade.alert.members"
ALERT_URL = "tracegrade.alert.url"
