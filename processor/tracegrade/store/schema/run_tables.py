"""Runs and experiments, and what was judged afterwards."""

import secrets

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Index, Integer, Table, Text

from tracegrade.store.schema.metadata import metadata

experiments = Table(
    "experiments",
    metadata,
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("name", Text, primary_key=True, doc="its name"),
    Column("begun_ns", BigInteger, nullable=False, doc="when its first run was begun"),
    Column("baseline", Text, doc="the run that is pinned as its baseline; null: none"),
    Column(
        "last_number",
        Integer,
        nullable=False,
        doc="of the runs that were named by it: `E/1`, `E/2`; none is used again",
    ),
    Column("suite", Text, doc="`suites.id` of the suite that it is about; null: of none that is stored"),
    Column("description", Text, doc="what people say it is for; null: nothing"),
    # The defaults are for rows that a repair copies from a store without these columns.
    Column(
        "id",
        Text,
        nullable=False,
        default=lambda: secrets.token_hex(6),
        doc="12 hex digits; they stay when it is renamed",
    ),
    Column(
        "own",
        Boolean,
        nullable=False,
        default=False,
        doc="whether evals of `suite` that name no experiment go into it",
    ),
    Column("baseline_entry", Text, doc="`experiment_entries.id` of the eval that is pinned; null: none"),
    Column("baseline_note", Text, doc="what became of the baseline that was pinned, if it was deleted; else null"),
    info={"about": "Experiments: runs that are compared with one baseline."},
)
Index("experiments_by_id", experiments.c.tenant, experiments.c.id, unique=True)

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

# What a run holds is in the tables of results, under its name. This row stays until the run is deleted; retention
# leaves it, and its rows of `counts`, since they hold nothing of a trace.
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
    Column("job", Text, doc="`jobs.id` of the job that writes it; null: none does"),
    Column("seen_ns", BigInteger, doc="when the process that writes it was last heard of; null: none writes it"),
    info={"about": "Runs: named sets of results that `replay --experiment` stored. What judges live has no row."},
)
Index("runs_by_experiment", runs.c.tenant, runs.c.experiment)
Index("runs_by_job", runs.c.tenant, runs.c.job)

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
