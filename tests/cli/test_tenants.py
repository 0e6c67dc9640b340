"""Commands that show what is stored show one tenant by ``--tenant``: of a stranger, what an empty store has."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.stored import run, store
from store.judged_traces import evaluation, judged, trace_id
from tracegrade.cli import COMMANDS, main
from tracegrade.store.open import open_store

ID = trace_id(1)

READING = {
    "traces list": ["traces", "list"],
    "traces show": ["traces", "show", ID],
    "traces export": ["traces", "export", ID],
    "results list": ["results", "list"],
    "results show": ["results", "show", ID],
    "results export": ["results", "export"],
    "results stats": ["results", "stats"],
    "alerts list": ["alerts", "list"],
    "alerts show": ["alerts", "show", "0123456789"],
    "alerts accept": ["alerts", "accept", "0123456789"],
    "alerts slo": ["alerts", "slo"],
    "why": ["why", ID],
    "experiments list": ["experiments", "list"],
    "experiments show": ["experiments", "show", "prompts"],
    "experiments timeline": ["experiments", "timeline", "prompts"],
    "jobs list": ["jobs", "list"],
    "jobs show": ["jobs", "show", "0123456789ab"],
    "suite list": ["suite", "list"],
    "suite show": ["suite", "show", "0123456789ab"],
    "suite export": ["suite", "export", "0123456789ab"],
    "compare": ["compare", "live@30d..7d", "live@7d.."],
    "promote": ["promote", ID],
}
# They change what is stored, or make something of their own, and take a tenant for that; or are tested elsewhere.
OTHERS = {
    "experiments baseline", "experiments label", "experiments delete", "experiments new", "experiments best",
    "experiments report", "experiments promote", "jobs cancel", "jobs resume", "jobs delete", "jobs submit",
    "suite import", "suite delete", "suite run", "tokens new", "traces delete", "rules backtest", "gate",
    "jobs watch", "experiments tune", "suite import-mcp", "experiments entries", "suite edit", "experiments add",
}  # fmt: skip


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)
        else:
            yield " ".join((*path, name)), found


def test_every_command_with_a_tenant_is_asked_here_or_changes_something() -> None:
    assert COMMANDS
    with_tenant = {
        name for name, command in commands(main) if any(option.name == "tenant" for option in command.params)
    }
    assert with_tenant <= READING.keys() | OTHERS, sorted(with_tenant - READING.keys() - OTHERS)
    assert with_tenant >= READING.keys(), sorted(READING.keys() - with_tenant)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    store(folder, judged(1, evaluations=[evaluation(1, "fail")]), judged(2))
    return folder


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    open_store(f"sqlite:///{folder / 'tracegrade.db'}").dispose()
    return folder


@pytest.mark.parametrize("name", READING)
def test_of_another_tenant_nothing_is_shown(full: Path, empty: Path, name: str) -> None:
    there, nowhere = (run(folder, *READING[name], "--tenant", "globex") for folder in (full, empty))
    assert (there.exit_code, there.output.replace(str(full), "")) == (
        nowhere.exit_code,
        nowhere.output.replace(str(empty), ""),
    )
    assert "checkout-order" not in there.output


@pytest.mark.parametrize("name", ["traces list", "traces show", "results list", "results show", "results stats", "why"])
def test_of_its_own_tenant_it_is(full: Path, name: str) -> None:
    shown = run(full, *READING[name], "--tenant", "default")
    assert shown.exit_code == 0, shown.output
    assert shown.output == run(full, *READING[name]).output
    assert "checkout-order" in shown.output or ID[:8] in shown.output
