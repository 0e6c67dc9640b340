"""The metrics of a running server."""

from pathlib import Path

from end_to_end.server import export, running

from pipeline.harness import agent_span, payload, tool_span
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.version import tracegrade_version
from waiting import eventually


def test_both_roles_say_who_they_are_and_what_was_judged(tmp_path: Path) -> None:
    with running(tmp_path, rules={"paths": ["builtin:default"]}) as server:
        export(server.endpoints["grpc"], payload([agent_span(1, 1), tool_span(1, 2, 1, "create_order")]))
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge"), "results in the judge's snapshot")
        page = server.page()
    for role in ("receive", "judge"):
        assert server.metric("tracegrade_build_info", role, page=page, version=tracegrade_version()) == 1
    instance = DataFolder(server.data).instance_id()
    target = f'service_instance_id="{instance}",service_name="tracegrade",service_version="{tracegrade_version()}"'
    assert f"target_info{{{target}}} 1.0" in page
