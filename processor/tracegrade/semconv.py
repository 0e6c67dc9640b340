"""Attribute names that we read and write, each with its source."""

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
RESPONSE_TOOL_CALLS = "gen_ai.response.tool_calls"
RESPONSE_TEXT = "gen_ai.response.text"
REQUEST_MESSAGES = "gen_ai.request.messages"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
AGENT_VERSION = "gen_ai.agent.version"
CONVERSATION_ID = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
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
PYDANTIC_TOOL_ARGUMENTS = "tool_arguments"
PYDANTIC_TOOL_RESPONSE = "tool_response"
PYDANTIC_AGENT_NAME = "agent_name"
PYDANTIC_MODEL_NAME = "model_name"
PYDANTIC_FINAL_RESULT = "final_result"
PYDANTIC_EVENTS = "events"
PYDANTIC_ALL_EVENTS = "all_messages_events"
PYDANTIC_ALL_MESSAGES = "pydantic_ai.all_messages"  # of an agent span, from format 2 on
# And in every format. Source: pydantic-ai-slim 2.68.0, capabilities/instrumentation.py and _instrumentation.py.
PYDANTIC_FAILURE_STAGE = "pydantic_ai.tool.failure_stage"
PYDANTIC_REQUEST_PARAMETERS = "model_request_parameters"
LOGFIRE_MESSAGE = "logfire.msg"

# OpenAI's Agents SDK through Logfire: the SDK's own words, without a prefix. Source: logfire 5.4.0,
# _internal/integrations/openai_agents.py.
LOGFIRE_TEMPLATE = "logfire.msg_template"
LOGFIRE_NAME = "name"
LOGFIRE_INPUT = "input"
LOGFIRE_OUTPUT = "output"
LOGFIRE_ERROR = "error"
LOGFIRE_GROUP = "group_id"
LOGFIRE_RAW_INPUT = "raw_input"
LOGFIRE_RESPONSE = "response"
LOGFIRE_FROM_AGENT = "from_agent"
LOGFIRE_TO_AGENT = "to_agent"

# Google's Agent Development Kit. Source: google-adk 2.13.0, telemetry/tracing.py.
ADK_TOOL_ARGUMENTS = "gcp.vertex.agent.tool_call_args"
ADK_TOOL_RESPONSE = "gcp.vertex.agent.tool_response"
ADK_LLM_REQUEST = "gcp.vertex.agent.llm_request"
ADK_LLM_RESPONSE = "gcp.vertex.agent.llm_response"
ADK_SESSION = "gcp.vertex.agent.session_id"
ADK_EVENT_ID = "gcp.vertex.agent.event_id"

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

# Of the resource.
SERVICE = "service.name"
RELEASE = "service.version"
# The second is the name before semantic conventions 1.27; senders still use it.
ENVIRONMENTS = ("deployment.environment.name", "deployment.environment")

# Of every trace, whatever the rules: what clauses other than ``attributes`` read, and what every agent run says.
ALWAYS_READ = frozenset((SERVICE, RELEASE, *ENVIRONMENTS, *TOKEN_USAGE))

# OpenLIT's model calls: what they asked tools to be given, and a metric's name. Source: openlit 1.45.0, semcov.
OPENLIT_TOOL_ARGS = "gen_ai.tool.args"
OPENLIT_HANDED_OVER_BY = "gen_ai.agent.source"
OPENLIT_TOKEN_USAGE = "gen_ai.client.token.usage"

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
OI_TOOL_ID = "tool.id"
OI_TOOL_CALL_ID = "tool_call.id"
OI_TOOL_CALL_ARGUMENTS = "tool_call.function.arguments"
OI_TOOL_PARAMETERS = "tool.parameters"
OI_TOOL_JSON_SCHEMA = "tool.json_schema"
OI_TOOL_SYNTHESIZED = "tool.synthesized"
OI_INPUT = "input.value"
OI_OUTPUT = "output.value"
OI_AGENT_NAME = "agent.name"
OI_GRAPH_NODE = "graph.node.id"
OI_MODEL = "llm.model_name"
OI_METADATA = "metadata"
OI_INPUT_MESSAGES = "llm.input_messages."
OI_OUTPUT_MESSAGES = "llm.output_messages."
OI_TOOLS = "llm.tools."
SESSION_ID = "session.id"
USER_ID = "user.id"
ENDUSER_ID = "enduser.id"

# traceAI (Future AGI): OpenInference's keys under GenAI's names. Source: fi-instrumentation-otel 1.1.0, fi_types.py.
TRACEAI_KIND = "gen_ai.span.kind"
TRACEAI_INPUT_MESSAGES = "gen_ai.input.messages."
TRACEAI_OUTPUT_MESSAGES = "gen_ai.output.messages."

# Vercel AI SDK before 7, and its legacy integration. Source: vercel/ai, packages/otel, legacy-open-telemetry.ts.
AI_OPERATION = "ai.operationId"
OPERATION = "operation.name"  # the operation, a space and the function id; AgentOps' too
AI_FUNCTION_ID = "ai.telemetry.functionId"
AI_METADATA = "ai.telemetry.metadata."
AI_CONTEXT = "ai.settings.context."
AI_MODEL = "ai.model.id"
AI_RESPONSE_MODEL = "ai.response.model"
AI_TOOL_NAME = "ai.toolCall.name"
AI_TOOL_ID = "ai.toolCall.id"
AI_TOOL_ARGS = "ai.toolCall.args"
AI_TOOL_RESULT = "ai.toolCall.result"
AI_PROMPT = "ai.prompt"
AI_PROMPT_MESSAGES = "ai.prompt.messages"
AI_TEXT = "ai.response.text"
AI_TOOL_CALLS = "ai.response.toolCalls"
AI_OBJECT = "ai.response.object"
AI_OLD_TEXT = "ai.result.text"
AI_OLD_TOOL_CALLS = "ai.result.toolCalls"
AI_OLD_OBJECT = "ai.result.object"

# MLflow; every value is JSON, a text thus in quotes. Source: mlflow 3.18.0, tracing/constant.py.
MLFLOW_TYPE = "mlflow.spanType"
MLFLOW_INPUTS = "mlflow.spanInputs"
MLFLOW_OUTPUTS = "mlflow.spanOutputs"
MLFLOW_FUNCTION = "mlflow.spanFunctionName"
MLFLOW_MODEL = "mlflow.llm.model"
MLFLOW_TOOLS = "mlflow.chat.tools"
MLFLOW_SESSION = "mlflow.trace.session"
MLFLOW_USER = "mlflow.trace.user"
MLFLOW_LANGCHAIN_METADATA = "metadata"
MLFLOW_LANGCHAIN_CALL_ID = "tool_call_id"
# Of DSPy's tools and smolagents' agents; and how smolagents calls the class of the tool that ends a run, the class of
# functions that were made tools, and an argument of its own.
MLFLOW_NAME = "name"
SMOLAGENTS_FINAL_ANSWER = "final_answer"
SMOLAGENTS_FINAL_ANSWER_CLASS = "FinalAnswerTool"
SMOLAGENTS_FUNCTION_CLASS = "SimpleTool"

# LangSmith's exporter. Source: langsmith 0.14.17, _internal/otel/_otel_exporter.py.
LANGSMITH_KIND = "langsmith.span.kind"
LANGSMITH_NAME = "langsmith.trace.name"
LANGSMITH_METADATA = "langsmith.metadata."

# Langfuse. Source: langfuse 5.0.4, _client/attributes.py; the server's own attributes.ts for the older keys.
LANGFUSE_TYPE = "langfuse.observation.type"
LANGFUSE_ROOT = "langfuse.internal.is_app_root"
LANGFUSE_INPUT = "langfuse.observation.input"
LANGFUSE_OUTPUT = "langfuse.observation.output"
LANGFUSE_LEVEL = "langfuse.observation.level"
LANGFUSE_STATUS_MESSAGE = "langfuse.observation.status_message"
LANGFUSE_MODEL = "langfuse.observation.model.name"
LANGFUSE_METADATA = "langfuse.observation.metadata."
LANGFUSE_TRACE_METADATA = "langfuse.trace.metadata."
LANGFUSE_TRACE_INPUT = "langfuse.trace.input"
LANGFUSE_TRACE_OUTPUT = "langfuse.trace.output"
LANGFUSE_SESSION = "langfuse.session.id"
LANGFUSE_USER = "langfuse.user.id"

# Haystack. Source: haystack-ai 3.4.1, components/agents/agent.py and tool_calling.py, core/pipeline/base.py.
HAYSTACK_TOOL_NAME = "haystack.tool.name"
HAYSTACK_TOOL_ERROR = "haystack.tool.error"
HAYSTACK_TOOL_INPUT = "haystack.agent.step.tool.input"
HAYSTACK_TOOL_OUTPUT = "haystack.agent.step.tool.output"
HAYSTACK_LLM_INPUT = "haystack.agent.step.llm.input"
HAYSTACK_LLM_OUTPUT = "haystack.agent.step.llm.output"
HAYSTACK_AGENT_STEPS = "haystack.agent.max_steps"
HAYSTACK_AGENT_INPUT = "haystack.agent.input"
HAYSTACK_AGENT_OUTPUT = "haystack.agent.output"
HAYSTACK_COMPONENT_NAME = "haystack.component.name"
HAYSTACK_COMPONENT_TYPE = "haystack.component.type"
HAYSTACK_COMPONENT_INPUT = "haystack.component.input"
HAYSTACK_COMPONENT_OUTPUT = "haystack.component.output"

# Mastra, beside GenAI. Source: mastra-ai/mastra, observability/otel-exporter, gen-ai-semantics.ts.
MASTRA_TYPE = "mastra.span.type"
MASTRA_AGENT_INPUT = "mastra.agent_run.input"
MASTRA_AGENT_OUTPUT = "mastra.agent_run.output"
MASTRA_STEP_INPUT = "mastra.model_step.input"
MASTRA_STEP_OUTPUT = "mastra.model_step.output"
MASTRA_METADATA = "mastra.metadata."

# Gemini CLI, beside GenAI. Source: google-gemini/gemini-cli, packages/core/src/telemetry/{constants,trace}.ts.
GEMINI_CALL_ID = "gen_ai.tool.call_id"
GEMINI_OLD_INPUT = "input-json"
GEMINI_OLD_OUTPUT = "output-json"

# Anthropic's API and SDKs, beside GenAI. Source: platform.claude.com, OpenTelemetry span reference.
ANTHROPIC_RESULT = "anthropic.tool_result.content"
ANTHROPIC_SESSION = "anthropic.session.id"
ANTHROPIC_REQUEST = "anthropic.request.id"

# Claude Code and the Claude Agent SDK. Source: Claude Code's documentation, monitoring-usage, "Traces (beta)".
SPAN_TYPE = "span.type"  # VoltAgent's too
CLAUDE_TOOL_NAME = "tool_name"
CLAUDE_TOOL_USE_ID = "tool_use_id"
CLAUDE_TOOL_INPUT = "tool_input"
CLAUDE_SUBAGENT = "subagent_type"
CLAUDE_PROMPT = "user_prompt"
CLAUDE_MODEL = "model"
CLAUDE_SUCCESS = "success"
CLAUDE_ERROR = "error"
CLAUDE_DECISION = "decision"
CLAUDE_OUTPUT_EVENT = "tool.output"
# Its log events, whose names also come with this prefix. Source: the same page, "Events".
CLAUDE_PREFIX = "claude_code."
CLAUDE_PROMPT_LOG = "user_prompt"
CLAUDE_ANSWER_LOG = "assistant_response"
CLAUDE_RESULT_LOG = "tool_result"
CLAUDE_PROMPT_LOG_TEXT = "prompt"
CLAUDE_ANSWER_LOG_TEXT = "response"

# OpenLLMetry. Source: opentelemetry-semantic-conventions-ai 0.5.1 and, for the flattened messages, 0.4.9;
# opentelemetry-instrumentation-llamaindex 0.62.4, event_emitter.py.
TRACELOOP_KIND = "traceloop.span.kind"
TRACELOOP_ENTITY_NAME = "traceloop.entity.name"
TRACELOOP_WORKFLOW_NAME = "traceloop.workflow.name"
TRACELOOP_INPUT = "traceloop.entity.input"
TRACELOOP_OUTPUT = "traceloop.entity.output"
TRACELOOP_PROPERTIES = "traceloop.association.properties."
TRACELOOP_LANGCHAIN_AGENT = "traceloop.association.properties.lc_agent_name"
LLM_REQUEST_TYPE = "llm.request.type"
LLM_REQUEST_FUNCTIONS = "llm.request.functions."
FLAT_PROMPTS = "gen_ai.prompt."
FLAT_COMPLETIONS = "gen_ai.completion."
TOOL_ARGUMENTS = "tool.arguments"

# LlamaIndex's own package. Source: llama-index-workflows, runtime/types/step_function.py.
LLAMA_SUMMARY = "llamaindex.step.input_summary"
LLAMA_OUTPUT = "step.output"
# Its events. Source: llama-index-core 0.14.25, instrumentation/events/llm.py.
LLAMA_CHAT_START = "LLMChatStartEvent"
LLAMA_CHAT_END = "LLMChatEndEvent"

# LangGraph's metadata, as langchain-azure-ai writes them. Source: langchain-azure-ai 1.2.12, callbacks/tracers.
LANGGRAPH_NODE = "metadata.langgraph_node"
# The agent in whose run something happens, in the metadata of every run. Source: langchain 1.2, agents/factory.py.
LANGCHAIN_AGENT = "lc_agent_name"

# The same as Netra writes it. Source: the spans of netra-sdk 1.2.2.
NETRA_LANGCHAIN_AGENT = "netra.association.properties.lc_agent_name"

# What an application does with models, which is its agent. Source: Axiom's AI SDK, withSpan.
AXIOM_CAPABILITY = "gen_ai.capability.name"

# CrewAI's own tracing. Source: crewai 1.15.30, telemetry/tracing/semantic_conventions.py.
CREWAI_EVENT = "crewai.event_name"
CREWAI_AGENT_ROLE = "crewai.agent.role"
# What OpenLLMetry writes of a crew. Source: opentelemetry-instrumentation-crewai 0.62.4, crewai_span_attributes.py.
CREWAI_TASKS_OUTPUT = "crewai.crew.tasks_output"
CREWAI_RESULT = "crewai.crew.result"
CREWAI_CREW_NAME = "crewai.crew.name"

# Spring AI, through Micrometer. Source: spring-projects/spring-ai, ToolCallingObservationDocumentation.java,
# McpServerToolObservationDocumentation.java.
SPRING_KIND = "spring.ai.kind"
SPRING_MCP_SERVER = "mcp_server_tool_call"  # the kind of an MCP server's span
SPRING_TOOL_NAME = "spring.ai.tool.definition.name"
SPRING_TOOL_SCHEMA = "spring.ai.tool.definition.schema"
SPRING_TOOL_CALL_ID = "spring.ai.tool.call.id"
SPRING_TOOL_ARGUMENTS = "spring.ai.tool.call.arguments"
SPRING_TOOL_RESULT = "spring.ai.tool.call.result"
SPRING_SERVER_ARGUMENTS = "spring.ai.mcp.server.tool.call.arguments"
SPRING_SERVER_RESULT = "spring.ai.mcp.server.tool.call.result"
SPRING_CONVERSATION_ID = "spring.ai.chat.client.conversation.id"

# LiveKit agents; without `pii.` before 1.8. Source: livekit-agents 1.8.9, telemetry/trace_types.py.
LK_TOOLS = "lk.function_tools"
LK_TOOL_NAME = "lk.function_tool.name"
LK_TOOL_ID = "lk.function_tool.id"
LK_TOOL_ARGUMENTS = "lk.pii.function_tool.arguments"
LK_TOOL_ARGUMENTS_OLD = "lk.function_tool.arguments"
LK_TOOL_OUTPUT = "lk.pii.function_tool.output"
LK_TOOL_OUTPUT_OLD = "lk.function_tool.output"
LK_TOOL_IS_ERROR = "lk.function_tool.is_error"
LK_USER_INPUT = "lk.pii.user_input"
LK_USER_INPUT_OLD = "lk.user_input"
LK_RESPONSE_TEXT = "lk.pii.response.text"
LK_RESPONSE_TEXT_OLD = "lk.response.text"

# Genkit. Source: @genkit-ai/core 1.42.0, tracing/instrumentation.ts.
GENKIT_SUBTYPE = "genkit:metadata:subtype"
GENKIT_NAME = "genkit:name"
GENKIT_INPUT = "genkit:input"
GENKIT_OUTPUT = "genkit:output"
GENKIT_SESSION_ID = "genkit:sessionId"

# VoltAgent. Source: @voltagent/core 2.10.0, agent/open-telemetry/trace-context.ts.
TOOL_CALL_ID_BARE = "tool.call.id"  # AgentOps' too
VOLT_ENTITY_TYPE = "entity.type"
VOLT_ENTITY_NAME = "entity.name"
VOLT_SUBAGENT_NAME = "subagent.name"
VOLT_OPERATION_ID = "operation.id"
VOLT_INPUT = "input"
VOLT_OUTPUT = "output"
VOLT_MODEL = "llm.model"
VOLT_MESSAGES = "llm.messages"
VOLT_CONVERSATION_ID = "conversation.id"

# Respan, beside OpenLLMetry's keys. Source: respan-tracing 2, constants/span_attributes.py.
RESPAN_TYPE = "respan.entity.log_type"

# Laminar. Source: lmnr 0.8.2, opentelemetry_lib/tracing/attributes.py.
LMNR_TYPE = "lmnr.span.type"
LMNR_INPUT = "lmnr.span.input"
LMNR_OUTPUT = "lmnr.span.output"
LMNR_SESSION_ID = "lmnr.association.properties.session_id"
LMNR_USER_ID = "lmnr.association.properties.user_id"
# Of OpenAI's Agents SDK: lmnr 0.8.2, opentelemetry_lib/opentelemetry/instrumentation/openai_agents.
LMNR_GROUP_ID = "lmnr.association.properties.metadata.openai.agents.group_id"
LMNR_PATH = "lmnr.span.path"
# OpenHands SDK, `observability`: metadata of the span of a tool.
LMNR_TOOL_CALL_ID = "lmnr.association.properties.metadata.tool_call_id"
LANGCHAIN_METADATA = "langchain.metadata"
LMNR_HANDOFF_FROM = "openai.agents.handoff.from"
LMNR_HANDOFF_TO = "openai.agents.handoff.to"

# LangWatch. Source: langwatch (Python), attributes.py.
LANGWATCH_TYPE = "langwatch.span.type"
LANGWATCH_INPUT = "langwatch.input"
LANGWATCH_OUTPUT = "langwatch.output"
LANGWATCH_PARAMS = "langwatch.params"
LANGWATCH_THREAD_ID = "langwatch.thread.id"
LANGWATCH_GRAPH_THREAD_ID = "langwatch.langgraph.thread_id"
LANGWATCH_GRAPH_AGENT = "langwatch.langgraph.lc_agent_name"
LANGWATCH_USER_ID = "langwatch.user.id"
LANGWATCH_METADATA = "metadata"

# AgentOps. Source: agentops 0.4.21, semconv/ and sdk/decorators/utility.py.
AGENTOPS_KIND = "agentops.span.kind"
AGENTOPS_TOOL_INPUT = "agentops.tool.input"
AGENTOPS_TOOL_OUTPUT = "agentops.tool.output"
AGENTOPS_AGENT_INPUT = "agentops.agent.input"
AGENTOPS_AGENT_OUTPUT = "agentops.agent.output"
AGENTOPS_ENTITY_INPUT = "agentops.entity.input"
AGENTOPS_ENTITY_OUTPUT = "agentops.entity.output"
AGENTOPS_TOOL_RESULT = "tool.result"

# Flue, whose newer releases write the GenAI conventions. Source: withastro/flue, packages/opentelemetry.
FLUE_TOOL_NAME = "flue.tool.name"
FLUE_TOOL_CALL_ID = "flue.tool.call_id"
FLUE_TOOL_ARGUMENTS = "flue.tool.arguments"
FLUE_TOOL_RESULT = "flue.tool.result"
FLUE_FALLBACK_ARGUMENTS = "flue.tool.call.arguments"
FLUE_FALLBACK_RESULT = "flue.tool.call.result"
FLUE_TASK_AGENT = "flue.task.agent"
FLUE_TASK_PROMPT = "flue.task.prompt"
FLUE_TASK_RESULT = "flue.task.result"

# HoneyHive's decorators. Source: honeyhive 1.7.0, tracer/instrumentation/decorators.py; its TypeScript package, and
# Python before 1.0, write inputs one level deeper.
HONEYHIVE_TYPE = "honeyhive_event_type"
HONEYHIVE_NAME = "honeyhive_event_name"
HONEYHIVE_INPUTS = "honeyhive_inputs."
HONEYHIVE_PARAMETERS = "honeyhive_inputs._params_."
HONEYHIVE_OUTPUTS = "honeyhive_outputs."
HONEYHIVE_RESULT = "honeyhive_outputs.result"
HONEYHIVE_ERROR = "honeyhive_error"
HONEYHIVE_ERROR_TYPE = "honeyhive_error_type"
HONEYHIVE_SESSION = "honeyhive.session_id"

# Resource. Source: open-telemetry/semantic-conventions, model/service/registry.yaml.
SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"

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
# Of the conventions, and read by no dialect; kept of such a trace, so that it shows all that a model was told.
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
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
        SYSTEM_INSTRUCTIONS,
    }
)
# What an agent's resource says of the run of a case that it is in, as its environment told it.
SUITE_UNIT = "tracegrade.suite.unit"

# The alert event: one when an alert begins to fire, one when it is resolved.
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
