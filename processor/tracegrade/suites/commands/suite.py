"""``tracegrade suite``: suites of cases; ``suite run`` runs one with models or agents."""

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command, Group
from tracegrade.cli.options import own_tenant_option, rules_option
from tracegrade.cli.output import EXIT_CANNOT_TELL, format_of, print_line, print_lines, progress
from tracegrade.cli.process import make_files_private
from tracegrade.cli.replay_run import described_run, print_run, read_labels, recorded
from tracegrade.cli.settings import settings_options
from tracegrade.display import count
from tracegrade.suites.commands.asking import agent_options
from tracegrade.suites.commands.jobs import submit_run
from tracegrade.suites.commands.stored import delete, export, import_, list_, named_suite, show
from tracegrade.suites.models.asking import TOOL_CHOICES, ToolChoice
from tracegrade.suites.models.settings import SEPARATOR, chosen_models, load_models, to_ask

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.store.runs import Run
    from tracegrade.suites.agents.target import AgentTarget
    from tracegrade.suites.models.settings import Target
    from tracegrade.suites.runs.results import AnyTarget, CaseResult
    from tracegrade.suites.runs.run import Asking, TargetRun
    from tracegrade.suites.suite import Suite

EXIT_INTERRUPTED = 130
_NOT_OF_AGENTS = "is for models: an agent has its own; leave it out, or add --model"
_NOT_IN_JOBS = "is not for jobs, whose models are those of the setting suites.models; leave it out, or --background"
_NOT_IN_NAMES = re.compile(r"[^\w.+-]+")


@click.command(cls=Command)
@click.argument("suite_path", metavar="SUITE")
@click.option(
    "--model",
    "model_names",
    multiple=True,
    metavar="PROVIDER::MODEL",
    help="A model of the file of models; several. The model's id is enough where one provider alone has it.",
)
@click.option(
    "--models",
    "models_path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("models.yaml"),
    show_default=True,
    help="The file that says which models there are, and where.",
)
@click.option(
    "--experiment",
    metavar="NAME",
    help="The experiment that the runs belong to, of one stored suite; without it, the suite's own, named as it.",
)
@click.option(
    "--run",
    "run_name",
    metavar="NAME",
    help="The name of the run, with '/' and the model where there are several; without it, EXPERIMENT/1 and so on.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the runs; several.")
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True, help="Of every request.")
@click.option(
    "--tool-choice",
    type=click.Choice(TOOL_CHOICES),
    default="required",
    show_default=True,
    help="Whether the model has to call a tool; a model that refuses 'required' is asked with 'auto'.",
)
@click.option(
    "--system-prompt",
    "system_prompts",
    multiple=True,
    metavar="[PROVIDER::MODEL=]TEXT|@FILE",
    help="Instead of the suite's system prompt: for all models, or for one; @FILE reads a file.",
)
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="Runs of each case.")
@rules_option("Judge every case by these rules, too.")
@agent_options
@click.option(
    "--max-parallel",
    type=click.IntRange(min=1, max=256),
    help="Most requests under way, all providers together; of an agent, most runs at once (1 if not set).",
)
@format_of(["table", "json", "junit", "markdown"], "Tables, one JSON object a line, or a report for CI.")
@click.option(
    "--background",
    is_flag=True,
    help="Submit it as a job for 'serve' and end at once; SUITE is one of the store. 'tracegrade jobs' shows it.",
)
@own_tenant_option("Whose suite, experiment and job.")
@settings_options
def run(
    suite_path: str,
    model_names: tuple[str, ...],
    models_path: Path,
    experiment: str | None,
    run_name: str | None,
    labels: tuple[str, ...],
    temperature: float,
    tool_choice: ToolChoice,
    system_prompts: tuple[str, ...],
    repeat: int,
    rule_paths: tuple[str, ...],
    agent: "AgentTarget | None",
    max_parallel: int | None,
    tenant: str,
    config: "Config",
    output_format: str,
    background: bool,
) -> None:
    """Ask models, or an agent of your own, the prompts of a suite, and judge what they call.

    SUITE is a rule folder with suite.json, as 'rules import' writes it, a suite as JSON, or the id or the name of one
    in the store. Each model, and the agent, gets its own run in the experiment. Give the same command again to continue
    an interrupted run: what is stored is not asked again.

    Exit codes: 0 every case was run, whatever came of it; 2 wrong usage; 3 a model or the agent could not be asked; 130
    interrupted.
    """
    from tracegrade.suites.hints import hints_of_run
    from tracegrade.suites.runs.run import Asking

    if background:
        if agent is not None:
            raise click.UsageError("--background: an agent of your own is not run as a job; leave it out")
        _refuse_here("models_path", "run_name", "rule_paths", "output_format", why=_NOT_IN_JOBS)
    models: list[Target] = []
    if model_names or agent is None:
        models = _models(model_names, None if background else models_path, config)
    else:
        _refuse_here("temperature", "tool_choice", "system_prompts", "models_path", why=_NOT_OF_AGENTS)
    prompts = _system_prompts(system_prompts, models)
    if background:
        asked = {
            "models": [target.key for target in models],
            "temperature": temperature,
            "tool_choice": tool_choice,
            "system_prompt": prompts or None,
            "repeat": repeat,
            "experiment": experiment,
            "labels": read_labels(labels),
            "max_parallel": max_parallel,
        }
        submit_run(config, tenant, suite_path, asked)
        return
    targets: list[AnyTarget] = [*to_ask(models), *([agent] if agent is not None else [])]
    suite = named_suite(suite_path, rule_paths, config, tenant)
    for note in suite.notes:
        print_line(f"Note: {note}.", err=True)
    for hint in hints_of_run(suite) if models else ():  # an agent has tools of its own
        print_line(f"Note: {hint}", err=True)
    asking = Asking(temperature, tool_choice, repeat, max_parallel, prompts)
    with ExitStack() as stack:
        begun = partial(described_run, tenant, _experiment(suite, experiment, tenant, config, bool(models)))
        runs = _begun(stack, config, suite, targets, asking, begun, run_name, read_labels(labels))
        is_whole = _run_all(suite, runs, asking, config)
    _say_what_became(runs, config, is_whole)
    _print_results(suite, runs, asking, config, tenant, output_format)
    if not is_whole:
        sys.exit(EXIT_INTERRUPTED)
    if any(item.problem is not None for item in runs):
        sys.exit(EXIT_CANNOT_TELL)


def _experiment(suite: "Suite", named: str | None, tenant: str, config: "Config", of_models: bool) -> str:
    """The experiment of the runs; models run a stored suite only in one that is about it.

    Raises:
        OtherSuite: it is about another suite.
        WrongValue: the name cannot be one.
    """
    from tracegrade.store.open import changing_store
    from tracegrade.store.runs import suite_of_source
    from tracegrade.suites.keeping import known_suite
    from tracegrade.suites.runs.experiments import experiment_for

    id_ = suite_of_source(suite.source)
    if id_ is None or (named is not None and not of_models):
        return named or suite.name
    make_files_private()
    with changing_store(config.store_url) as connection:
        stored = known_suite(connection, tenant, id_)
        return experiment_for(connection, stored, named, time.time_ns()).name


def _models(names: Sequence[str], models_path: Path | None, config: "Config") -> "list[Target]":
    """The models of these names, of the file, or without one of those that `serve` knows.

    Raises:
        UsageError: none is named.
        TraceGradeError: the file is wrong, or has no such model.
    """
    from tracegrade.suites.jobs.suite_request import known_models

    known = known_models(config) if models_path is None else load_models(models_path, config.traces.prices)
    if not names:
        keys = ", ".join(target.key for target in known)
        raise click.UsageError(f"--model: expected at least one of {keys}; or --agent-command, or --agent-url")
    return chosen_models(known, names)


def _refuse_here(*names: str, why: str) -> None:
    """Raise for an option that has no say here."""
    context = click.get_current_context()
    for param in context.command.params:
        if param.name in names and context.get_parameter_source(param.name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[0]} {why}")


def _system_prompts(written: Sequence[str], targets: "Sequence[Target]") -> dict[str, str]:
    """The system prompt of each model, by its key; one for a single model wins over one for all.

    Raises:
        UsageError: two for the same, one for a model that is not asked, or a file that cannot be read.
    """
    keys = [target.key for target in targets]
    for_all: list[str] = []
    of_one: dict[str, str] = {}
    for item in written:
        name, equals, text = item.partition("=")
        if equals and SEPARATOR in name and not name.startswith("@") and " " not in name:
            if name not in keys:
                raise click.UsageError(f"--system-prompt: {name!r} is not asked; expected one of {', '.join(keys)}")
            if name in of_one:
                raise click.UsageError(f"--system-prompt: two are given for {name}")
            of_one[name] = _text_or_file(text)
        else:
            for_all.append(_text_or_file(item))
    if len(for_all) > 1:
        raise click.UsageError("--system-prompt: two are given for all models; name the model: PROVIDER::MODEL=TEXT")
    return {key: text for key in keys for text in (*for_all, *([of_one[key]] if key in of_one else []))}


def _text_or_file(written: str) -> str:
    if not written.startswith("@"):
        return written
    try:
        return Path(written[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--system-prompt: {written[1:]!r} cannot be read: {error}") from None


def _begun(
    stack: ExitStack,
    config: "Config",
    suite: "Suite",
    targets: "Sequence[AnyTarget]",
    asking: "Asking",
    described: "Callable[..., Run]",
    run_name: str | None,
    labels: dict[str, str],
) -> "list[TargetRun]":
    """A run for each target, begun or gone on with, in the store; they end with `stack`."""
    from tracegrade.history.runs.recorded_run import broken_off
    from tracegrade.store.open import open_store
    from tracegrade.suites.runs.run import TargetRun

    make_files_private()
    engine = open_store(config.store_url)
    stack.callback(engine.dispose)
    runs = []
    for target in targets:
        own_labels = {"model": target.key, **labels}
        selection = asking.selection(suite, target)
        asked = described(own_labels, suite.source, selection, suite.rule_set, config)
        name = run_name
        if run_name is not None and len(targets) > 1:
            name = f"{run_name}/{_NOT_IN_NAMES.sub('-', target.key)}"
        elif run_name is None:
            with engine.connect() as connection:
                name = broken_off(connection, asked)
            if name is not None:
                print_line(f"Going on with run {name} of {target.key}, which is not complete.", err=True)
        recording = stack.enter_context(recorded(config, asked, name))
        assert recording is not None, "a run was asked for"
        runs.append(TargetRun(target, recording))
    return runs


def _run_all(suite: "Suite", runs: "Sequence[TargetRun]", asking: "Asking", config: "Config") -> bool:
    """Run all that is not stored; False when Ctrl-C ended it before."""
    from tracegrade.store.open import reading_store
    from tracegrade.suites.runs.run import run_suite

    stop = threading.Event()
    results = run_suite(
        suite,
        runs,
        asking,
        config.traces,
        config.settings_hash,
        lambda: reading_store(config.store_url),
        stop,
        says=lambda text: print_line(text, err=True),
    )
    try:
        with _ended_as_by_ctrl_c(), progress("cases", len(suite.cases) * asking.repeat * len(runs)) as advance:
            for number, item in enumerate(results):
                advance(1 if number else 1 + sum(found.stored for found in runs))
                if not sys.stderr.isatty():
                    _say_result(item)
    except KeyboardInterrupt:
        stop.set()
        for found in runs:
            found.recording.forget_if_empty()
        return False
    return True


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP end the run as Ctrl-C does: commands of agents would go on else."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_result(item: "CaseResult") -> None:
    score = "" if item.score is None else f" overall {item.score:.4g}"
    why = f": {item.explanation}" if item.outcome != "pass" else ""
    where = f"{item.model} {item.case}" + (f" #{item.repetition}" if item.repetition > 1 else "")
    print_line(f"{item.outcome} {where}{score} {item.latency_s:.2f} s{why}", err=True)


def _say_what_became(runs: "Sequence[TargetRun]", config: "Config", is_whole: bool) -> None:
    for item in runs:
        if item.problem is not None:
            print_lines(f"Error: {item.target.key}: {item.problem}", err=True)
        elif is_whole:
            print_run(config, item.recording)
    if not is_whole:
        print_line("Interrupted: what was done is kept, and the same command goes on with it.", err=True)
    elif any(item.stored for item in runs):
        found = sum(item.stored for item in runs)
        print_line(f"{count(found, 'result')} stored before, and not asked again.", err=True)


def _print_results(
    suite: "Suite", runs: "Sequence[TargetRun]", asking: "Asking", config: "Config", tenant: str, output_format: str
) -> None:
    from tracegrade.store.open import reading_store
    from tracegrade.suites.commands.tables import print_suite_run
    from tracegrade.suites.runs.results import stored_results, summary_of

    cases = [case.id for case in suite.cases]
    with reading_store(config.store_url) as connection:
        results = {
            item.name: stored_results(connection, tenant, item.name, suite.rule.id, item.target, cases) for item in runs
        }
    summaries = [summary_of(item.name, item.target.key, results[item.name]) for item in runs if results[item.name]]
    print_suite_run(suite, summaries, results, output_format, asking)


@click.group(cls=Group, path="suite")
def command() -> None:
    """Keep suites of test cases, and run them with models or agents."""


for one in (import_, list_, show, export, delete, run):
    command.add_command(one)
