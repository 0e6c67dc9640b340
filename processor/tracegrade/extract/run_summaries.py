"""Agent runs as results carry them: without their calls, with what was spent on them."""

from tracegrade.extract.token_usage import tokens_by_run
from tracegrade.model.extraction import Extraction
from tracegrade.model.trace_result import RunSummary


def run_summaries(extraction: Extraction) -> list[RunSummary]:
    """One for each run of `extraction`, in their order."""
    tokens = tokens_by_run(extraction)
    summaries = []
    for run in extraction.runs:
        spent = tokens.get(run.span_id)
        summaries.append(
            RunSummary(
                run.span_id,
                run.agent,
                run.parent_span_id,
                run.session,
                run.model,
                run.prompt_hash,
                spent.input if spent else None,
                spent.output if spent else None,
                run.duration_ns,
                spent.cached or None if spent else None,
                spent.cache_write or None if spent else None,
            )
        )
    return summaries
