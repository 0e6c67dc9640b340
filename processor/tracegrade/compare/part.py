"""What comparing adds: commands, a section of the page, operations, and the baselines of gates."""

from tracegrade.part import Command, Part, Section

PART = Part(
    "compare",
    commands=[
        Command(
            "check",
            "tracegrade.compare.commands.check:command",
            "Run an agent's tests, and judge what it did in them.",
            after="replay",
        ),
        Command(
            "compare",
            "tracegrade.compare.commands.compare:command",
            "Is one release, agent, model or run worse than another?",
            after="check",
        ),
        Command(
            "gate",
            "tracegrade.compare.commands.gate:command",
            "May this release go out? Pass rates against bounds and a baseline.",
            after="compare",
        ),
        Command(
            "baseline",
            "tracegrade.compare.commands.baseline:command",
            "Save what gates compare with.",
            after="gate",
        ),
        Command("rules backtest", "tracegrade.compare.commands.rule_backtest:backtest"),
    ],
    sections=[Section("/compare", "Compare", after="/alerts")],
    web="tracegrade.compare.web.registry:WEB",
    functions={"comparing": "tracegrade.compare.commands.replay_compare:Comparing"},
)
