"""The tables. One row a trace holds all that was judged; the other tables are what it is found and counted by.

``traces.judged`` is the record as it was delivered (tool calls, evaluations, decisions, with every value), compressed:
text is nine tenths of a result and compresses to a tenth. ``evaluations``, ``tool_calls`` and ``decisions`` are views
over lists in the same row: writing a row for each took most of the time that storing a trace took. What repeats from
result to result (rule, service, agent and so on) is a row of ``series``, as in a metrics database. ``counts`` adds
outcomes up by minute, hour and day (UTC) of the trace's last span, in the transaction that writes them, so pass rates
cost the same at ten million results as at ten. For people who read by SQL, the view ``results`` joins what they want to
see.

A session has a row like a trace's, under a trace id of its own, with its results alone: they change with every trace of
it, and a higher revision replaces them as it does a trace's.

Times are ns since 1970 UTC; ids are the wire's bytes; outcomes, kinds and subject kinds are places in the tuples below.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

# The place in a tuple is what the column holds: append only.
OUTCOMES = ("pass", "fail", "not_evaluable", "error")
DECISION_KINDS = ("evaluated", "not_matched", "sampled_out", "not_evaluable", "error")
SUBJECT_KINDS = ("agent", "trace", "session", "tool-call")
ALERT_STATES = ("firing", "resolved", "pending")

# The newest migration in migrations/versions.
VERSION = "0008"

# `series.evaluation` of the series that hold a rule's decisions, which combine its evaluations.
WHOLE_RULE = ""

# `series.rule_id` of the series that count traces, whatever judges them, by service.
EVERY_TRACE = ""

BLOCK_TRACES = 64
CHUNK_BLOCKS = 32
EVERY_SERIES = 0  # real ones begin with 1

MINUTE_NS = 60_000_000_000
DAY_MINUTES = 24 * 60
COUNTED_MINUTES = (1, 60, DAY_MINUTES)

metadata = MetaData()

series = Table(
    "series",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("key", LargeBinary(16), nullable=False, unique=True),  # hash of all that follows
    Column("tenant", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("rule_id", Text, nullable=False),
    Column("rule_hash", Text, nullable=False),  # as results carry it
    Column("evaluation", Text, nullable=False),
    Column("evaluator", Text, nullable=False),
    Column("level", Text, nullable=False),
    Column("threshold", Float),
    Column("service", Text, nullable=False),
    Column("release", Text),
    Column("agent", Text, nullable=False),
    # The chance with which results were kept: each stands for 1 / probability of its kind.
    Column("probability", Float, nullable=False),
    Column("tracegrade", Text, nullable=False, server_default=""),  # the version that judged; "": not known
    # The hash by which the rule goes now; not its own only where results were stored before 0008.
    Column("present_hash", Text, nullable=False, server_default=""),
)

traces = Table(
    "traces",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # grows with every closing stored
    Column("trace_id", LargeBinary(16), nullable=False),
    Column("tenant", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("service", Text, nullable=False),
    Column("session", Text),
    Column("root_name", Text, nullable=False),
    Column("close_reason", Text, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("cut_by", Text),
    Column("span_count", Integer, nullable=False),
    Column("call_count", Integer, nullable=False),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    Column("first_received_ns", BigInteger, nullable=False),
    Column("last_received_ns", BigInteger, nullable=False),
    Column("closed_ns", BigInteger, nullable=False),
    Column("first_position", BigInteger, nullable=False),
    Column("rule_set_hash", Text, nullable=False),
    # Rows of the views, as JSON lists; migrations/versions say in which order.
    Column("evaluations", Text, nullable=False),
    Column("decisions", Text, nullable=False),
    Column("tool_calls", Text, nullable=False),
    # Last, so that reading the columns above touches none of their pages.
    Column("judged", LargeBinary, nullable=False),
    Column("spans", LargeBinary, nullable=False),
    # Of a session, which is a row under a trace id of its own: its traces, as JSON {hex trace id: revision}.
    Column("members", Text),
    UniqueConstraint("trace_id", "tenant", "run", name="traces_by_id"),
)
# Those that go on; an index that costs a trace nothing. Only the migration says which they are: `postgresql_where` here
# would load that dialect for every command that reads SQLite, a tenth of what one takes.
Index("sessions_going_on", traces.c.closed_ns)

# Between which numbers the traces are that were first received in a minute: what a time range is read by. An index on
# the time would cost every trace a write; here it is a row a minute. Never too narrow: deleting leaves it as it is.
arrivals = Table(
    "arrivals",
    metadata,
    Column("minute", Integer, primary_key=True, autoincrement=False),  # minutes since 1970
    Column("first_number", BigInteger, nullable=False),
    Column("last_number", BigInteger, nullable=False),
)

# Which blocks of BLOCK_TRACES trace numbers hold results of a series by outcome, a bit a block in a row for
# CHUNK_BLOCKS of them; EVERY_SERIES stands for them all. What a search for few among many is read by: an index on every
# result would cost a trace as much as its own row. Deleted and replaced traces stay noted until their whole chunk is
# gone: reading a block in vain takes below a millisecond.
blocks = Table(
    "blocks",
    metadata,
    Column("chunk", BigInteger, primary_key=True, autoincrement=False),
    Column("series", Integer, primary_key=True, autoincrement=False),
    Column("outcome", SmallInteger, primary_key=True, autoincrement=False),
    Column("held", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Both are kept in order of time before series: what a batch changes then lies on a few pages, however much is stored.
# By series first, it changes a page for each of them, which was a third of what writing into a large store took.
counts = Table(
    "counts",
    metadata,
    Column("minutes", Integer, primary_key=True, autoincrement=False),  # how long: one of COUNTED_MINUTES
    Column("minute", Integer, primary_key=True, autoincrement=False),  # its start, minutes since 1970
    Column("series", Integer, primary_key=True, autoincrement=False),
    Column("complete", Boolean, primary_key=True),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("not_evaluable", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("score_sum", Float, nullable=False),
    Column("score_squares", Float, nullable=False),
    sqlite_with_rowid=False,
)

alerts = Table(
    "alerts",
    metadata,
    Column("fingerprint", LargeBinary(16), primary_key=True),
    Column("starts_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("ends_ns", BigInteger),
    Column("state", SmallInteger, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("rule_id", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("level", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("of", Text, nullable=False),
    Column("bound", Float, nullable=False),
    Column("over_s", Float, nullable=False),
    Column("value", Float, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("updated_ns", BigInteger, nullable=False),
    Column("notified", JSON, nullable=False),  # receiver name -> what it was last told, and what went wrong
    Column("kind", Text, nullable=False),
    Column("rule_hash", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("release", Text),
    Column("facts", JSON, nullable=False),  # what people are told beside
)

silences = Table(
    "silences",
    metadata,
    Column("id", Text, primary_key=True),
    Column("labels", JSON, nullable=False),  # label -> glob: all must match
    Column("starts_ns", BigInteger, nullable=False),
    Column("ends_ns", BigInteger, nullable=False),
    Column("comment", Text, nullable=False),
)

# What judged: a row each time that another text of a rule came in force. Kept for good: a rule is a few kilobytes, and
# changes seldom. Results that were stored before 0008 carry the hash of the text as that of the rule.
rule_texts = Table(
    "rule_texts",
    metadata,
    Column("rule_id", Text, primary_key=True),
    Column("since_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("text_hash", Text, nullable=False),
    Column("rule_hash", Text, nullable=False),
    Column("text", Text, nullable=False),
)
Index("rule_texts_by_hash", rule_texts.c.text_hash)

# Which rule sets judge alike: by the hash that traces carry, the hash of what their rules judge.
rule_sets = Table(
    "rule_sets",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("judgement_hash", Text, nullable=False),
)
