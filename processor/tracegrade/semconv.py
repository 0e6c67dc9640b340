"""Attribute names that we read and write, each with its source."""

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
REASON = "tracegrade.reason"
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
