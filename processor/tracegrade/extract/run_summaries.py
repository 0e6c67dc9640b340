"""Agent runs as results carry them: without their calls, with what was spent on them."""

from collections.abc import Mapping, Sequence

from tracegrade.extract.token_usage import ModelCall, added_up, model_calls
from tracegrade.model.extraction import Extraction
from tracegrade.model.trace_result import RunSummary


def run_summaries(
    extraction: Extraction, of_runs: Mapping[str | None, Sequence[ModelCall]] | None = None
) -> list[RunSummary]:
    """One for each run of `extraction`, in their order; `of_runs` are its `model_calls`, where they are known."""
    calls = model_calls(extraction) if of_runs is None else of_runs
    summaries = []
    for run in extraction.runs:
        spent = added_up(calls[run.span_id]) if run.span_id in calls else None
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
