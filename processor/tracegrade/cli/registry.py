"""The commands: each with where it is and its line in the help; and what people type in their place."""

from tracegrade.part import parts, placed

_OWN = {
    "demo": ("tracegrade.cli.demo:command", "See it work: a small instrumented agent, judged."),
    "serve": ("tracegrade.cli.serve:command", "Receive, forward and judge traces."),
    "traces": ("tracegrade.cli.traces:command", "Show stored traces."),
    "why": ("tracegrade.cli.why:command", "Why was a trace judged as it was, or not at all?"),
    "results": ("tracegrade.cli.results:command", "Show stored evaluations."),
    "alerts": ("tracegrade.cli.alerts:command", "Show and silence alerts."),
    "extract": ("tracegrade.cli.extract:command", "Show the tool calls in files of traces."),
    "rules": ("tracegrade.cli.rules:command", "Check, test, try and list rule files."),
    "promote": ("tracegrade.cli.promote:command", "Make recorded traces tests of a rule."),
    "evaluate": ("tracegrade.cli.evaluate:command", "Judge calls given on the command line, one set or a batch."),
    "replay": ("tracegrade.cli.replay:command", "Judge stored traces again, by the rules as they are now."),
    "experiments": ("tracegrade.cli.experiments:command", "Show and compare stored runs of replay."),
    "doctor": ("tracegrade.cli.doctor:command", "What is wrong here, and what to set?"),
    "config": ("tracegrade.cli.config:command", "Check and show settings."),
    "tokens": ("tracegrade.cli.tokens:command", "Make, list, rotate and revoke tokens."),
    "redact": ("tracegrade.cli.redact:command", "What would redaction take out of recorded traces?"),
    "backup": ("tracegrade.cli.backup:command", "Copy the data folder and the store while serve works."),
    "restore": ("tracegrade.cli.backup:restore", "Bring a backup back into an empty folder."),
    "healthcheck": ("tracegrade.cli.healthcheck:command", "Is a running serve ready? For health checks of containers."),
    "set-aside": ("tracegrade.cli.set_aside:command", "List what crashed the judge, and retry it."),
}
HEADINGS = {
    "demo": "Run",
    "traces": "Look at what was judged",
    "rules": "Write rules",
    "replay": "Decide about a change",
    "doctor": "Administer",
}
"""The heading in the help, by the first command below it."""

GUESSED = {
    "init": "there is nothing to set up; 'serve' makes its data folder, and 'rules new' writes a first rule",
    "status": "'doctor' says what is wrong, and 'healthcheck' whether serve is ready",
    "start": "'serve' receives and judges traces, and 'demo' shows it at work",
    "list": "'traces list', 'results list', 'rules list' and 'alerts list' are there",
    "show": "'traces show TRACE_ID' and 'alerts show ID' are there",
    "test": "'rules test' tests rules, and 'check' runs a program and judges it",
    "version": "write 'tracegrade --version'",
    "help": "write 'tracegrade --help'",
}
"""What people try that is no command, and what there is."""

COMMANDS = placed(
    _OWN,
    [
        (command.path, command.after, (command.target, command.help))
        for part in parts()
        for command in part.commands
        if command.after
    ],
)
"""name -> (``module:name``, one line of help), in the order shown."""
