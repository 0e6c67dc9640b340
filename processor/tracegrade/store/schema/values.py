"""What columns hold that is not plain: codes, names that stand for something else, and lengths of time."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from tracegrade.model import evaluation

# Columns hold an index into a tuple: only append.
OUTCOMES = ("pass", "fail", "not_evaluable", "error")
DECISION_KINDS = ("evaluated", "not_matched", "sampled_out", "not_evaluable", "error")
SUBJECT_KINDS = ("agent", "trace", "session", "tool-call")
ALERT_STATES = ("firing", "resolved")

# `run` of what a judge stored as it came in; every other run has a row in `runs`, but for BACKFILL: its results are in
# the rows of live traces, counted by the same minutes, with a row in `backfills`.
LIVE = evaluation.LIVE
BACKFILL = evaluation.BACKFILL

# `series.evaluation` of the series that hold a rule's decisions, which combine its evaluations.
WHOLE_RULE = ""

# `series.rule_id` of the series that count traces by service, judged or not.
EVERY_TRACE = ""

# PostgreSQL's sequence of `traces.number`: several processes store traces at once. SQLite has one writer and no
# sequences.
NUMBERS = "trace_numbers"

BLOCK_TRACES = 64
CHUNK_BLOCKS = 32
CHUNK_TRACES = CHUNK_BLOCKS * BLOCK_TRACES
EVERY_SERIES = 0  # real ones begin with 1

MINUTE_NS = 60_000_000_000
DAY_MINUTES = 24 * 60
COUNTED_MINUTES = (1, 60, DAY_MINUTES)

# `counts.minutes` of a run but the live one: it is counted as a whole, whenever its traces came. So its pass rates cost
# a row a series, and stay when retention has deleted its traces and the counts of that age.
WHOLE_RUN = 0

# (id, series, case, subject kind, subject id, outcome, score, time), as the view `evaluations` has them; where one of
# these names is `other` in the series, also a list of the own (service, release, agent).
EvaluationRow: TypeAlias = Sequence[Any]
# (series, subject kind, subject id, kind, outcome), as the view `decisions` has them; where something was measured,
# also a list of (series, value).
DecisionRow: TypeAlias = Sequence[Any]
