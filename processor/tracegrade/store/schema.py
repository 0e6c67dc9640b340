"""The tables. One row for each trace holds all its results; by the other tables, results are found and counted.

``traces.judged`` is the delivered record (tool calls, evaluations, decisions, with every value), compressed: text is
nine tenths of a result and compresses to a tenth. ``evaluations``, ``tool_calls``, ``decisions`` and ``agent_runs`` are
views over lists in the same row: writing a row for each took most of the time of storing a trace. Values that many
results share (rule, service, agent and so on) are a row of ``series``, as in a metrics database. ``counts`` adds
outcomes up by minute, hour and day (UTC) of the trace's last span, in the transaction that writes them, so pass rates
cost the same at ten million results as at ten. For people who read by SQL, the view ``results`` joins the columns that
they usually need.

A session has a row like a trace's, under a trace id of its own, with only its results: they change with each of its
traces, and a higher revision replaces them, as with a trace.

Times are ns since 1970 UTC; ids are bytes as on the wire; outcomes, kinds and subject kinds are indexes into the tuples
below.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
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

from tracegrade.model import trace_result

# Columns hold an index into a tuple: only append.
OUTCOMES = ("pass", "fail", "not_evaluable", "error")
DECISION_KINDS = ("evaluated", "not_matched", "sampled_out", "not_evaluable", "error")
SUBJECT_KINDS = ("agent", "trace", "session", "tool-call")
ALERT_STATES = ("firing", "resolved")

# The newest migration in migrations/versions.
VERSION = "0019"

# `run` of what a judge stored as it came in; every other run has a row in `runs`, but for BACKFILL: its results are in
# the rows of live traces, counted by the same minutes, with a row in `backfills`.
LIVE = "live"
BACKFILL = trace_result.BACKFILL

# `series.evaluation` of the series that hold a rule's decisions, which combine its evaluations.
WHOLE_RULE = ""

# `series.rule_id` of the series that count traces by service, judged or not.
EVERY_TRACE = ""

# PostgreSQL's sequence of `traces.number`: several processes store traces at once. SQLite has one writer and no
# sequences.
NUMBERS = "trace_numbers"

BLOCK_TRACES = 64
CHUNK_BLOCKS = 32
EVERY_SERIES = 0  # real ones begin with 1

MINUTE_NS = 60_000_000_000
DAY_MINUTES = 24 * 60
COUNTED_MINUTES = (1, 60, DAY_MINUTES)

# `counts.minutes` of a run but the live one: it is counted as a whole, whenever its traces came. So its pass rates cost
# a row a series, and stay when retention has deleted its traces and the counts of that age.
WHOLE_RUN = 0

metadata = MetaData()
# What only PostgreSQL has.
postgresql_metadata = MetaData()

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
    Column("key", LargeBinary(16), nullable=False, unique=True, doc="hash of all columns up to `tracegrade`"),
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
    Column(
        "present_hash",
        Text,
        nullable=False,
        server_default="",
        doc="the hash by which the rule goes now; differs only for results stored before 0008",
    ),
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
    # Rows of the views, as JSON lists; migrations/versions say in which order.
    Column("evaluations", Text, nullable=False, doc="rows of the view `evaluations`"),
    Column("decisions", Text, nullable=False, doc="rows of the view `decisions`"),
    Column("tool_calls", Text, nullable=False, doc="rows of the view `tool_calls`"),
    # Last, so that reading the columns above does not touch its pages.
    Column("judged", LargeBinary, nullable=False, doc="the whole result with every value, compressed"),
    Column(
        "spans", LargeBinary, nullable=False, doc="the spans, compressed: what replaying or judging them again reads"
    ),
    Column("members", Text, doc="of a session, its traces: JSON {trace id in hex: revision}; null for a trace"),
    Column("agent_runs", Text, nullable=False, server_default="[]", doc="rows of the view `agent_runs`"),
    Column(
        "not_decoded",
        Text,
        doc="why no rule judged it, so that its spans were not decoded, and the views lack its calls and runs: "
        "`not_matched` or `sampled_out`; null: it was decoded",
    ),
    UniqueConstraint("trace_id", "tenant", "run", name="traces_by_id"),
    info={
        "about": "One row for each trace, and for each session under a trace id of its own, with all that was judged."
    },
)
# Sessions that go on; an index that costs nothing for a trace. Only the migration has its condition: `postgresql_where`
# here would load that dialect for every command that reads SQLite, which takes a tenth of its time.
Index("sessions_going_on", traces.c.closed_ns)

# PostgreSQL: `traces` is in parts by number (`store.partitions`), whose indexes know only their own part. This says
# where each trace is, and holds that it is there once.
trace_keys = Table(
    "trace_keys",
    postgresql_metadata,
    Column("trace_id", LargeBinary(16), primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("run", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("replaced", BigInteger, doc="the number that it had before its latest revision"),
)

# PostgreSQL: how far each judge that writes to it has got (`store.judges`).
judges = Table(
    "judges",
    postgresql_metadata,
    Column("name", Text, primary_key=True),
    Column("stored_to_ns", BigInteger, nullable=False),
    Column("seen", DateTime(timezone=True), nullable=False),
)

# PostgreSQL: traces that are stored, and whose sessions are not judged with them yet (`store.session_turns`).
session_turns = Table(
    "session_turns",
    postgresql_metadata,
    Column("tenant", Text, primary_key=True),
    Column("session", Text, primary_key=True),
    Column("trace_id", LargeBinary(16), primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("closed_ns", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False, doc="of the session, among the shares of judges"),
)

# PostgreSQL: deletions that all data folders with judges carry out (`store.shared_deletions`).
shared_deletions = Table(
    "shared_deletions",
    postgresql_metadata,
    Column("id", Text, primary_key=True),
    Column("requested_ns", BigInteger, nullable=False),
    Column("tenant", Text, doc="NULL: the traces of all tenants"),
    Column("trace_ids", LargeBinary, nullable=False, doc="one after the other, 16 bytes each"),
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

alerts = Table(
    "alerts",
    metadata,
    Column("fingerprint", LargeBinary(16), primary_key=True, doc="hash of the alert and of what it watches"),
    Column("starts_ns", BigInteger, primary_key=True, autoincrement=False, doc="when it began"),
    Column("ends_ns", BigInteger, doc="when it ended; null while it lasts"),
    Column(
        "state",
        SmallInteger,
        nullable=False,
        doc="0 firing, 1 resolved",
    ),
    Column("tenant", Text, nullable=False, doc="whose"),
    Column("rule_id", Text, nullable=False, doc="the rule"),
    Column("service", Text, nullable=False, doc="the service watched"),
    Column("level", Text, nullable=False, doc="the rule's level"),
    Column("title", Text, nullable=False, doc="the rule's title"),
    Column(
        "of",
        Text,
        nullable=False,
        doc="what is watched: `pass_rate`, `not_evaluable`, `error`, an evaluation's name, NAME.score, `tokens`, "
        "`cost` or `duration`",
    ),
    Column("bound", Float, nullable=False, doc="what it is compared with"),
    Column("over_s", Float, nullable=False, doc="the window, s"),
    Column("value", Float, nullable=False, doc="what is watched, at the last look"),
    Column("samples", Integer, nullable=False, doc="results in the window"),
    Column("updated_ns", BigInteger, nullable=False, doc="the last look"),
    Column("kind", Text, nullable=False, doc="`below`, `above`, `drop`, `rise`, `coverage`, `silent` or `slo`"),
    Column("rule_hash", Text, nullable=False, doc="the rule's hash"),
    Column("agent", Text, nullable=False, doc="the agent watched"),
    Column("release", Text, doc="the release watched; null: all releases together"),
    Column("facts", JSON, nullable=False, doc="what notifications say in addition to the value"),
    Column("incident", Text, doc="the incident that it is a member of"),
    info={"about": "One row for each firing of an alert."},
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", Text, primary_key=True, doc="10 hex digits"),
    Column("tenant", Text, nullable=False, doc="whose"),
    Column("lead", Text, nullable=False, doc="the alert by whose labels it is known: fingerprint-seconds of its start"),
    Column("starts_ns", BigInteger, nullable=False, doc="when its first alert began"),
    Column("ends_ns", BigInteger, doc="when its last alert ended; null while one fires"),
    Column("accepted_ns", BigInteger, doc="when the new level was accepted as normal; null: it was not"),
    Column("notified", JSON, nullable=False, doc="channel name to its last notification, and what went wrong"),
    info={"about": "One row for each incident: alerts that fired together."},
)

waiting_alerts = Table(
    "waiting_alerts",
    metadata,
    Column("rule_id", Text, primary_key=True, doc="the rule"),
    Column("alert", Text, primary_key=True, doc="the alert in words"),
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("service", Text, primary_key=True, doc="the service watched"),
    Column("agent", Text, primary_key=True, doc="the agent watched"),
    Column("reason", Text, nullable=False, doc="`no_baseline` or `too_few`"),
    Column("since_ns", BigInteger, nullable=False, doc="since when"),
    info={"about": "Alerts that cannot tell yet whether anything is wrong: there are too few results, or no baseline."},
)

silences = Table(
    "silences",
    metadata,
    Column("id", Text, primary_key=True, doc="what `tracegrade alerts silence` prints"),
    Column("labels", JSON, nullable=False, doc="label to glob: all must match"),
    Column("starts_ns", BigInteger, nullable=False, doc="from when"),
    Column("ends_ns", BigInteger, nullable=False, doc="until when"),
    Column("comment", Text, nullable=False, doc="the reason, in the words of its author"),
    info={
        "about": "Silences: alerts that send no notifications for a time.",
        "without_tenant": "the label `tenant` may be among its `labels`; without it, it is of all tenants",
    },
)

# The rules that judged: a row each time another text of a rule came into force. Never deleted: a rule has a few
# kilobytes and seldom changes. Results stored before 0008 carry the hash of the text as that of the rule.
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
Index("rule_texts_by_hash", rule_texts.c.text_hash)

# Rule sets that judge alike: for the hash that traces carry, the hash of what their rules judge.
rule_sets = Table(
    "rule_sets",
    metadata,
    Column("hash", Text, primary_key=True, doc="the hash that traces carry"),
    Column("judgement_hash", Text, nullable=False, doc="hash of what the rules judge"),
    info={"about": "Which rule sets judge alike.", "without_tenant": "all tenants are judged by the same rules"},
)

experiments = Table(
    "experiments",
    metadata,
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("name", Text, primary_key=True, doc="its name"),
    Column("begun_ns", BigInteger, nullable=False, doc="when its first run was begun"),
    Column("baseline", Text, doc="the run that is pinned as its baseline; null: its first complete run"),
    Column(
        "last_number",
        Integer,
        nullable=False,
        doc="of the runs that were named by it: `E/1`, `E/2`; none is used again",
    ),
    Column("suite", Text, doc="`suites.id` of the suite that it is about; null: of none that is stored"),
    Column("description", Text, doc="what people say it is for; null: nothing"),
    info={"about": "Experiments: runs that are compared with one baseline."},
)

# What other tools found in an experiment: they tune parameters or prompts, or let a model judge, and report the end.
experiment_entries = Table(
    "experiment_entries",
    metadata,
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("experiment", Text, primary_key=True, doc="`experiments.name`"),
    Column("id", Text, primary_key=True, doc="12 hex digits"),
    Column(
        "kind", Text, nullable=False, doc="`param_tune`, `prompt_tune`, `judge`, or `eval` for one that was promoted"
    ),
    Column("at_ns", BigInteger, nullable=False, doc="when it was reported"),
    Column("score", Float, doc="its best score, 0 to 1; null: it has none"),
    Column("configuration", JSON, nullable=False, doc="what gave that score, as it was reported"),
    Column("promoted_from", Text, doc="of an `eval`, the `id` of the entry whose best result it is"),
    info={"about": "Entries of an experiment's timeline that other tools reported."},
)

# What a run holds is in the tables above, under its name. This row stays until the run is deleted; retention leaves it,
# and its rows of `counts`, since they hold nothing of a trace.
runs = Table(
    "runs",
    metadata,
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("name", Text, primary_key=True, doc="its name: `run` of its traces and series"),
    Column("experiment", Text, nullable=False, doc="`experiments.name`"),
    Column("state", Text, nullable=False, doc="`incomplete`, `failed`, `complete` or `deleting`"),
    Column("problem", Text, nullable=False, doc="what ended a failed one; else empty"),
    Column("gate", Text, doc="what the gate said: `pass`, `fail` or `cannot_tell`; null: there was none"),
    Column("begun_ns", BigInteger, nullable=False, doc="when it was begun"),
    Column("written_ns", BigInteger, nullable=False, doc="when it was last written: its age for retention"),
    Column("labels", JSON, nullable=False, doc="label to value, as they were given"),
    Column("source", Text, nullable=False, doc="where its traces are from: `journal`, or files"),
    Column("selection", JSON, nullable=False, doc="which of these traces, by the options of `replay`"),
    Column("rule_set_hash", Text, nullable=False, doc="the rule set that judged it"),
    Column("judgement_hash", Text, nullable=False, doc="hash of what these rules judge"),
    Column("settings_hash", Text, nullable=False, doc="the settings that judging reads"),
    Column("rules", JSON, nullable=False, doc="rule id to {hash, level, status, incomplete, path, scored_by}"),
    Column("tracegrade", Text, nullable=False, doc="the version that judged"),
    Column("git_revision", Text, doc="of the folder in which it was made; ends in `-dirty` if files were changed"),
    Column("releases", JSON, nullable=False, doc="the releases of its traces, at most 100"),
    Column("prompt_hash", Text, doc="equal for runs with the same prompts; null: no prompt was read"),
    Column("prompt_count", Integer, nullable=False, doc="different prompts"),
    Column("first_number", BigInteger, doc="the lowest of `traces.number` that it may have; null: none yet"),
    Column("last_number", BigInteger, doc="the highest"),
    Column("emptied", Boolean, nullable=False, doc="whether retention has deleted its traces"),
    info={"about": "Runs: named sets of results that `replay --experiment` stored. What judges live has no row."},
)
Index("runs_by_experiment", runs.c.tenant, runs.c.experiment)

# The results themselves are in the rows of the live traces that they judge: what deletes or replaces a trace takes them
# along. Here is no id of a trace.
backfills = Table(
    "backfills",
    metadata,
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("rule_id", Text, primary_key=True, doc="the rule"),
    Column("rule_hash", Text, nullable=False, doc="the hash of the rule that judged"),
    Column("made_ns", BigInteger, nullable=False, doc="when it was made"),
    Column("since_ns", BigInteger, nullable=False, doc="its traces were first received from then on"),
    Column("until_ns", BigInteger, nullable=False, doc="and before this time"),
    Column("subjects", Integer, nullable=False, doc="how many subjects were judged"),
    Column("complete", Boolean, nullable=False, doc="whether all of it was stored"),
    info={"about": "What `rules backtest --store` judged afterwards: the latest of each rule."},
)

suites = Table(
    "suites",
    metadata,
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("id", Text, primary_key=True, doc="12 hex digits"),
    Column("name", Text, nullable=False, doc="its name"),
    Column("description", Text, nullable=False, doc="what it is for; may be empty"),
    Column("system_prompt", Text, nullable=False, doc="what a model is told before each prompt; may be empty"),
    Column("tools", JSON, nullable=False, doc="its tools, as function schemas"),
    Column("created_ns", BigInteger, nullable=False, doc="when it was made"),
    Column("updated_ns", BigInteger, nullable=False, doc="when it, or a case of it, was last changed"),
    info={"about": "Suites that were made on the page, by the API or by `suite import`. Only people delete them."},
)

suite_cases = Table(
    "suite_cases",
    metadata,
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("suite", Text, primary_key=True, doc="`suites.id`"),
    Column("id", Text, primary_key=True, doc="unique within its suite"),
    Column("place", Integer, nullable=False, doc="its place in the suite, from 0"),
    Column("body", JSON, nullable=False, doc="the test case as the suite's file has it, without its id"),
    info={"about": "The cases of suites."},
)

jobs = Table(
    "jobs",
    metadata,
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("id", Text, primary_key=True, doc="12 hex digits"),
    Column("kind", Text, nullable=False, doc="`suite_run`"),
    Column("owner", Text, nullable=False, doc="for the limits: hash of the token that submitted it; empty without one"),
    Column("state", Text, nullable=False, doc="`queued`, `running`, `done`, `failed`, `cancelled` or `interrupted`"),
    Column("request", JSON, nullable=False, doc="what is to be done"),
    Column("runs", JSON, nullable=False, doc="the names of the runs that it writes: `runs.name`"),
    Column("done", Integer, nullable=False, doc="units that are stored"),
    Column("total", Integer, nullable=False, doc="units in all; 0 until it runs"),
    Column("message", Text, nullable=False, doc="what it does now, or what ended it; may be empty"),
    Column("worker", Text, nullable=False, doc="the worker process that runs it; empty: none"),
    Column("seen_ns", BigInteger, nullable=False, doc="when that worker was last heard of"),
    Column("created_ns", BigInteger, nullable=False, doc="when it was submitted"),
    Column("begun_ns", BigInteger, doc="when it was first run; null: not yet"),
    Column("ended_ns", BigInteger, doc="when it ended; null: not yet"),
    info={"about": "Jobs: what is done in the background, such as a suite that is run with models."},
)
Index("jobs_by_state", jobs.c.state)

# What happened in a job, for those who watch it. Neither trace ids nor values of a trace: who reads a result's event
# gets them from the trace, as long as that is stored.
job_events = Table(
    "job_events",
    metadata,
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("job", Text, primary_key=True, doc="`jobs.id`"),
    Column("number", Integer, primary_key=True, autoincrement=False, doc="from 1, within the job"),
    Column("at_ns", BigInteger, nullable=False, doc="when"),
    Column("name", Text, nullable=False, doc="such as `tool_eval_progress`"),
    Column("fields", JSON, nullable=False, doc="its fields"),
    info={"about": "What happened in a job, in order."},
)
