"""Judged traces, and the rules that judged them: a row of `traces` holds all results; the others find and count."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

from tracegrade.store.schema.metadata import metadata

series = Table(
    "series",
    metadata,
    Column(
        "number",
        Integer,
        primary_key=True,
        autoincrement=False,
        doc="its name in `evaluations`, `decisions`, `counts` and `blocks`",
    ),
    Column("key", LargeBinary(16), nullable=False, unique=True, doc="hash of the other columns"),
    Column("tenant", Text, nullable=False, doc="whose results"),
    Column("run", Text, nullable=False, doc="`live`, the name of a run in `runs`, or `backfill`"),
    Column("rule_id", Text, nullable=False, doc="the rule; empty for the series that count traces, judged or not"),
    Column(
        "rule_hash", Text, nullable=False, doc="the rule's hash as results carry it: changes with what the rule judges"
    ),
    Column(
        "evaluation",
        Text,
        nullable=False,
        doc="the evaluation's name within the rule; empty for the rule as a whole; `tokens`, `cost` or `duration` "
        "where these are summed up for an alert",
    ),
    Column(
        "evaluator",
        Text,
        nullable=False,
        doc="the evaluator's name; empty for the rule as a whole, and for tokens, cost and duration",
    ),
    Column("level", Text, nullable=False, doc="how much a fail matters"),
    Column("threshold", Float, doc="the least score that passes; null for a rule as a whole"),
    Column("service", Text, nullable=False, doc="`service.name` of the judged resource"),
    Column("release", Text, doc="`service.version` of the judged resource"),
    Column("agent", Text, nullable=False, doc="the agent's name"),
    Column(
        "probability",
        Float,
        nullable=False,
        doc="the probability with which results were kept: each stands for 1 / probability results",
    ),
    Column("tracegrade", Text, nullable=False, server_default="", doc="the version that judged; empty: not known"),
    info={"about": "Values that many results share, stored once: the rule, its evaluation, and where it judged."},
)

traces = Table(
    "traces",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False, doc="grows with every closing that is stored"),
    Column("trace_id", LargeBinary(16), nullable=False, doc="16 bytes"),
    Column("tenant", Text, nullable=False, doc="whose trace"),
    Column("run", Text, nullable=False, doc="`live`, or the name of a run in `runs`"),
    Column(
        "revision",
        Integer,
        nullable=False,
        doc="how many distinct spans and log records were seen; a higher revision replaces the row",
    ),
    Column("service", Text, nullable=False, doc="`service.name` of the root's resource"),
    Column("session", Text, doc="the conversation's id, if any span says one"),
    Column("root_name", Text, nullable=False, doc="name of the root span"),
    Column("close_reason", Text, nullable=False, doc="why the trace was closed"),
    Column("complete", Boolean, nullable=False, doc="whether nothing of it is missing"),
    Column("cut_by", Text, doc="the bound that cut it short; null: none"),
    Column("span_count", Integer, nullable=False, doc="spans kept"),
    Column("call_count", Integer, nullable=False, doc="tool calls read; 0 where it was not decoded"),
    Column("start_ns", BigInteger, nullable=False, doc="first start"),
    Column("end_ns", BigInteger, nullable=False, doc="last end"),
    Column("first_received_ns", BigInteger, nullable=False, doc="when its first span came"),
    Column("last_received_ns", BigInteger, nullable=False, doc="when its last span came"),
    Column("closed_ns", BigInteger, nullable=False, doc="when it was closed; of a session, when its last trace was"),
    Column(
        "first_position",
        BigInteger,
        nullable=False,
        doc="where its first record is in the journal; with Kafka, the sum of both topics' offsets",
    ),
    Column("rule_set_hash", Text, nullable=False, doc="the rule set that judged it"),
    # Lists read the columns above and these, of thousands of rows: before what is long, they are in the row's own page.
    Column("members", Text, doc="of a session, its traces: JSON {trace id in hex: revision}; null for a trace"),
    Column(
        "not_decoded",
        Text,
        doc="why no rule judged it, so that its spans were not decoded, and the views lack its calls and runs: "
        "`not_matched` or `sampled_out`; null: it was decoded",
    ),
    Column("traffic", Integer, doc="the series that counts it, where it is not that of its service by name; else null"),
    Column("release", Text, doc="its release, if it says one"),
    Column(
        "cost",
        Float,
        doc="of its model calls, by the prices in force when it was judged; null: unknown, or a session",
    ),
    Column("prompt", Text, doc="the first words of its first prompt; null: none was read, or values were deleted"),
    # Rows of the views, as JSON lists; `create.py` says in which order.
    Column("agent_runs", Text, nullable=False, server_default="[]", doc="rows of the view `agent_runs`"),
    Column("evaluations", Text, nullable=False, doc="rows of the view `evaluations`"),
    Column("decisions", Text, nullable=False, doc="rows of the view `decisions`"),
    Column("tool_calls", Text, nullable=False, doc="rows of the view `tool_calls`"),
    Column("judged", LargeBinary, nullable=False, doc="the whole result with every value, compressed"),
    Column(
        "spans", LargeBinary, nullable=False, doc="the spans, compressed: what replaying or judging them again reads"
    ),
    UniqueConstraint("trace_id", "tenant", "run", name="traces_by_id"),
    info={
        "about": "One row for each trace, and for each session under a trace id of its own, with all that was judged."
    },
)

# The lowest and highest number of the traces first received in a minute, to read a time range. An index on the time
# would cost a write for every trace; this costs a row a minute. It is never too narrow: deleting does not change it.
arrivals = Table(
    "arrivals",
    metadata,
    Column("minute", Integer, primary_key=True, autoincrement=False, doc="minutes since 1970 UTC"),
    Column("first_number", BigInteger, nullable=False, doc="the lowest of `traces.number`"),
    Column("last_number", BigInteger, nullable=False, doc="the highest"),
    info={
        "about": "The range of numbers of the traces first received in each minute: to find a time range.",
        "without_tenant": "numbers alone, of the traces of all tenants",
    },
)

# Which blocks of BLOCK_TRACES trace numbers hold results of a series by outcome: one bit for each block, a row for
# CHUNK_BLOCKS of them; EVERY_SERIES stands for all series. With it, a search finds few results among many; an index on
# every result would cost as much as the row of the trace. Deleted and replaced traces stay noted until their whole
# chunk is gone: reading a block that has no result takes less than a millisecond.
blocks = Table(
    "blocks",
    metadata,
    Column("chunk", BigInteger, primary_key=True, autoincrement=False, doc="32 blocks together, counted from 0"),
    Column("series", Integer, primary_key=True, autoincrement=False, doc="`series.number`; 0 for all of them"),
    Column(
        "outcome", SmallInteger, primary_key=True, autoincrement=False, doc="0 pass, 1 fail, 2 not_evaluable, 3 error"
    ),
    Column("held", BigInteger, nullable=False, doc="a bit for each block that holds such a result"),
    sqlite_with_rowid=False,
    info={
        "about": "Which blocks of 64 traces hold results of a series by outcome: finds few among many.",
        "without_tenant": "its `series` has one",
    },
)

# Both are in order of time first, then series: so a batch changes few pages, even in a large store. With series first,
# it changed a page for each of them, which took a third of the time of writing into a large store.
counts = Table(
    "counts",
    metadata,
    Column(
        "minutes",
        Integer,
        primary_key=True,
        autoincrement=False,
        doc="how long the row's time is: 1, 60 or 1440; 0 for a whole run, other than `live`",
    ),
    Column(
        "minute",
        Integer,
        primary_key=True,
        autoincrement=False,
        doc="its start, minutes since 1970 UTC; 0 for a whole run",
    ),
    Column("series", Integer, primary_key=True, autoincrement=False, doc="`series.number`"),
    Column("complete", Boolean, primary_key=True, doc="whether the traces were complete"),
    Column("passed", Integer, nullable=False, doc="results that pass"),
    Column("failed", Integer, nullable=False, doc="results that fail"),
    Column("not_evaluable", Integer, nullable=False, doc="results that could not be judged"),
    Column("errors", Integer, nullable=False, doc="results whose evaluation raised an error"),
    Column("score_sum", Float, nullable=False, doc="the sum of all scores; of tokens, costs, or seconds"),
    Column("score_squares", Float, nullable=False, doc="the sum of their squares"),
    sqlite_with_rowid=False,
    info={
        "about": "Outcomes of each series by minute, hour and day of the trace's last span, and of whole runs: gives "
        "pass rates.",
        "without_tenant": "its `series` has one",
    },
)

# The rules that judged: a row each time another text of a rule came into force. Never deleted: a rule has a few
# kilobytes and seldom changes.
rule_texts = Table(
    "rule_texts",
    metadata,
    Column("rule_id", Text, primary_key=True, doc="the rule"),
    Column("since_ns", BigInteger, primary_key=True, autoincrement=False, doc="from when"),
    Column("text_hash", Text, nullable=False, doc="hash of the whole text"),
    Column("rule_hash", Text, nullable=False, doc="hash of what it judges"),
    Column("text", Text, nullable=False, doc="the rule as JSON"),
    info={
        "about": "A row each time another text of a rule came into force.",
        "without_tenant": "all tenants are judged by the same rules",
    },
)
Index("rule_texts_by_hash", rule_texts.c.rule_hash)

# Rule sets that judge alike: for the hash that traces carry, the hash of what their rules judge.
rule_sets = Table(
    "rule_sets",
    metadata,
    Column("hash", Text, primary_key=True, doc="the hash that traces carry"),
    Column("judgement_hash", Text, nullable=False, doc="hash of what the rules judge"),
    info={"about": "Which rule sets judge alike.", "without_tenant": "all tenants are judged by the same rules"},
)
