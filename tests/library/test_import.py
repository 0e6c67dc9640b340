import subprocess
import sys
from textwrap import dedent

import pytest

SERVERS = ("grpc", "starlette", "uvicorn", "sqlalchemy", "requests", "opentelemetry", "asyncio", "jinja2")
# What some rules need, or reading them: loaded when they do.
SELDOM = ("yaml", "jsonschema_rs", "rapidfuzz", "cel")


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_evaluators_load_no_server() -> None:
    loaded = _run(
        f"""
        import sys
        import tracegrade.evaluate.registry
        print([name for name in {SERVERS!r} if name in sys.modules])
        """
    )
    assert loaded == "[]"


def test_evaluators_load_nothing_that_few_rules_use() -> None:
    loaded = _run(
        f"""
        import sys
        import tracegrade.evaluate.registry
        print([name for name in {SELDOM!r} if name in sys.modules])
        """
    )
    assert loaded == "[]"


def test_the_front_door_loads_nothing_that_it_does_not_need() -> None:
    loaded = _run(
        """
        import sys
        import tracegrade
        print([name for name in ("pydantic", "tracegrade.evaluate.registry", "yaml") if name in sys.modules])
        """
    )
    assert loaded == "[]"


@pytest.mark.parametrize("command", ["results", "traces", "alerts"])
def test_the_help_of_what_is_stored_loads_neither_settings_nor_sql(command: str) -> None:
    loaded = _run(
        f"""
        import sys
        from tracegrade.cli import main
        main([{command!r}, "list", "--help"], standalone_mode=False)
        print([name for name in ("pydantic", "sqlalchemy", "yaml", "rich") if name in sys.modules])
        """
    ).splitlines()[-1]
    assert loaded == "[]"


@pytest.mark.parametrize(
    ("role", "others"), [("receive_role", ("sqlalchemy", "requests", "jinja2")), ("judge_role", ("requests", "jinja2"))]
)
def test_a_role_starts_without_what_it_may_never_need(role: str, others: tuple[str, ...]) -> None:
    loaded = _run(
        f"""
        import sys
        import tracegrade.pipeline.{role}
        print([name for name in {others!r} if name in sys.modules])
        """
    )
    assert loaded == "[]"


def test_evaluators_work_without_anything_around_them(capsys: pytest.CaptureFixture[str]) -> None:
    seconds, score = _run(
        """
        from time import perf_counter
        started = perf_counter()
        from tracegrade.evaluate.evaluator import Evidence
        from tracegrade.evaluate.registry import EVALUATORS
        from tracegrade.model.tool_call import ToolCall
        took = perf_counter() - started
        call = ToolCall("search", "search", None, {}, "ok", None, "absent", None, 0, 0, "", "", "")
        order = EVALUATORS["tool-call-order"]
        criteria = order.read_criteria({"tool_calls_order": ["search", "book"]})
        print(took, order.evaluate(Evidence([call]), criteria, order.Settings()).score)
        """
    ).split()
    assert score == "0.5"
    with capsys.disabled():
        print(f" (importing the evaluators took {float(seconds):.2f} s) ", end="")
