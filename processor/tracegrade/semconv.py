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
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
MESSAGE_EVENT_SYSTEM = "gen_ai.system.message"
MESSAGE_EVENT_USER = "gen_ai.user.message"
MESSAGE_EVENT_ASSISTANT = "gen_ai.assistant.message"
MESSAGE_EVENT_TOOL = "gen_ai.tool.message"
MESSAGE_EVENT_CHOICE = "gen_ai.choice"
INFERENCE_EVENT = "gen_ai.client.inference.operation.details"
# Written by Strands and OpenLIT beside the conventions. Source: strands-agents 1.62.0, telemetry/tracer.py.
TOOL_STATUS = "gen_ai.tool.status"
TOOL_JSON_SCHEMA = "gen_ai.tool.json_schema"

# Model Context Protocol. Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md.
MCP_METHOD = "mcp.method.name"
MCP_SESSION_ID = "mcp.session.id"

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
OI_TOOL_PARAMETERS = "tool.parameters"
OI_TOOL_SYNTHESIZED = "tool.synthesized"
OI_INPUT = "input.value"
OI_OUTPUT = "output.value"
OI_AGENT_NAME = "agent.name"
OI_GRAPH_NODE = "graph.node.id"
OI_MODEL = "llm.model_name"
OI_INPUT_MESSAGES = "llm.input_messages."
OI_OUTPUT_MESSAGES = "llm.output_messages."
OI_TOOLS = "llm.tools."
SESSION_ID = "session.id"
USER_ID = "user.id"
ENDUSER_ID = "enduser.id"

# Resource. Source: open-telemetry/semantic-conventions, model/service/registry.yaml.
SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"

# --- What we write -------------------------------------------------------------------------------------------------

# Our own telemetry is recognised by this scope name, passed on and not judged.
OWN_SCOPE = "tracegrade"

# Names the instance that sent a request: a request that comes back to it is a loop. Also a gRPC metadata key.
INSTANCE_HEADER = "x-tracegrade-instance"

# The evaluation event. Source: open-telemetry/semantic-conventions-genai, model/gen-ai/events.yaml.
EVALUATION_EVENT = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_SCORE_VALUE = "gen_ai.evaluation.score.value"
EVALUATION_SCORE_LABEL = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"
EVENT_NAME = "event.name"  # for backends older than the field event_name of a log record
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
