"""What suites of cases add: commands, settings, tables, pages and operations, and the worker of their jobs."""

from tracegrade.part import Command, Part, Section, Settings

PART = Part(
    "suites",
    commands=[
        Command(
            "suite",
            "tracegrade.suites.commands.suite:command",
            "Keep suites of cases for models, and run them.",
            after="experiments",
        ),
        Command(
            "jobs",
            "tracegrade.suites.commands.jobs:command",
            "Runs of suites in the background: show, cancel, resume.",
            after="suite",
        ),
        Command("rules import", "tracegrade.suites.commands.rules:import_"),
        Command("rules export", "tracegrade.suites.commands.rules:export"),
    ],
    sections=[
        Section("/suites", "Suites", "/alerts", "Tests", "cases: what a user says, and the calls that are expected"),
        Section("/evals", "Evals", "/suites", "Tests", "models and agents that answer the cases of a suite"),
    ],
    settings=[Settings("suites", "tracegrade.suites.settings:SuitesSettings", "Suites of cases")],
    tables="tracegrade.suites.store.tables",
    web="tracegrade.suites.web.registry:WEB",
    functions={
        "promote": "tracegrade.suites.commands.promote:promote",
        "delete_experiment_alone": "tracegrade.suites.runs.experiments:delete_experiment_alone",
        "check_unwritten": "tracegrade.suites.runs.experiments:check_unwritten",
        "delete_old": "tracegrade.suites.store.jobs:delete_old_events",
        "worker": "tracegrade.suites.jobs.process:worker",
        "run_worker": "tracegrade.suites.commands.worker:run_worker",
    },
)
