"""The agents of docs/guides/instrument.md, with scripted models: what they send is read as the tool call they made.

Skipped where a framework is not installed. For Node, ``NODE_MODULES`` names a folder with what the page installs.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from build.served import Server
from docs.pages import Write, steps
from tracegrade.cli import main
from waiting import eventually

PAGE = "guides/instrument.md"
FILES = {step.path: step for step in steps(PAGE) if isinstance(step, Write)}
PACKAGES = {
    "openai_agents.py": ("agents", "openinference.instrumentation.openai_agents"),
    "pydantic_ai_bot.py": ("pydantic_ai",),
    "langchain_bot.py": ("langchain", "openinference.instrumentation.langchain"),
}
MODELS = Path(__file__).parent / "models"


@contextmanager
def _serving(folder: Path) -> Iterator[Server]:
    server = Server(folder, rules={"paths": []})
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _run(server: Server, folder: Path, transport: str, *command: str) -> None:
    environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{server.endpoints[transport]}"}
    # What a framework would send to its makers stays here.
    environment |= {"OPENAI_API_KEY": "none", "LANGSMITH_TRACING": "false"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "Sunny."


def _calls(server: Server) -> list[dict[str, object]]:
    def look() -> str:
        traces = CliRunner().invoke(main, ["traces", "list", "--data-dir", str(server.data), "--format", "json"])
        return traces.stdout if traces.exit_code == 0 else ""

    trace_id = json.loads(eventually(look, "the trace to be stored", every_s=0.2))["trace_id"]
    shown = CliRunner().invoke(main, ["traces", "show", trace_id, "--data-dir", str(server.data), "--format", "json"])
    calls: list[dict[str, object]] = json.loads(shown.stdout)["tool_calls"]
    return calls


def _is_the_forecast(calls: list[dict[str, object]]) -> bool:
    found = [(call["name"], call["arguments"], call["output"]) for call in calls]
    return found == [("get_forecast", {"city": "Paris"}, "sunny")]


@pytest.mark.parametrize("program", PACKAGES)
def test_the_call_of_a_python_agent_is_read(program: str, tmp_path: Path) -> None:
    if missing := [module for module in PACKAGES[program] if not _installed(module)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    for path in ("telemetry.py", program):
        FILES[path].apply(tmp_path)
    shutil.copy(MODELS / program, tmp_path / "model.py")
    with _serving(tmp_path) as server:
        _run(server, tmp_path, "grpc", sys.executable, program)
        assert _is_the_forecast(_calls(server))


def test_the_call_of_a_node_agent_is_read(tmp_path: Path) -> None:
    modules = Path(os.environ.get("NODE_MODULES", "none"))
    node = shutil.which("node")
    if node is None or not (modules / "ai").is_dir():
        pytest.skip("NODE_MODULES names no folder with what the page installs, or there is no node")
    (tmp_path / "node_modules").symlink_to(modules)
    FILES["bot.mjs"].apply(tmp_path)
    shutil.copy(MODELS / "bot.mjs", tmp_path / "model.mjs")
    with _serving(tmp_path) as server:
        _run(server, tmp_path, "http", node, "bot.mjs")
        assert _is_the_forecast(_calls(server))


def test_the_page_shows_nothing_that_is_not_run() -> None:
    assert FILES.keys() == {"telemetry.py", "bot.mjs", *PACKAGES}
    assert {path.name for path in MODELS.iterdir() if path.is_file()} == {"bot.mjs", *PACKAGES}
