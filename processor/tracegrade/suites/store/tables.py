"""Suites of cases that people keep, and the jobs that run them."""

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, Table, Text

from tracegrade.store.schema.metadata import metadata

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
