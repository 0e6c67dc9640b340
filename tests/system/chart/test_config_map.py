"""Rules from a ConfigMap under load: the kubelet swaps the link ``..data``, and all files change at once."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from build.otlp import agent_span, payload, tool_span
from build.served import export, served
from waiting import eventually

pytestmark = pytest.mark.long

SWAPS = 8


def test_a_swap_refuses_no_request_and_no_trace_is_judged_by_rules_of_two_versions(tmp_path: Path) -> None:
    volume = tmp_path / "rules"
    volume.mkdir()
    _swap(volume, 0)
    for name in "ab":
        (volume / f"{name}.rule.yaml").symlink_to(f"..data/{name}.rule.yaml")
    sent: list[int] = []
    stop = threading.Event()
    with served(tmp_path, rules={"paths": [str(volume)], "reload": "100ms"}) as server:

        def send() -> None:
            while not stop.is_set():
                spans = [agent_span(len(sent) + 1, 1), tool_span(len(sent) + 1, 2, 1, "create_order")]
                export(server.endpoints["grpc"], payload(spans))  # raises where it is refused
                sent.append(len(sent) + 1)

        sender = threading.Thread(target=send)
        sender.start()
        for version in range(1, SWAPS + 1):
            before = len(sent)
            _swap(volume, version)
            eventually(lambda version=version: f"{version}-a" in _judged(server).values().__str__(), "the new rules")
            assert len(sent) > before, "the load went on"
        stop.set()
        sender.join()
        eventually(lambda: len(_judged(server)) == len(sent), "all to be judged")
        versions = {trace: {rule.partition("-")[0] for rule in rules} for trace, rules in _judged(server).items()}
        mixed = {trace: found for trace, found in versions.items() if len(found) > 1}
        assert mixed == {}
        assert all(len(rules) == 2 for rules in _judged(server).values())
        assert server.metric("tracegrade_receiver_requests_total", "receive", outcome="refused") == 0
        assert server.metric("tracegrade_rules_reloads_total", "judge", outcome="refused") == 0


def _swap(volume: Path, version: int) -> None:
    """Write a folder of rules, and rename a link to it over the one before, which is then removed: as the kubelet."""
    folder = volume / f"..version_{version}"
    folder.mkdir()
    for name in "ab":
        rule = {"id": f"{version}-{name}", "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["x"]}]}
        (folder / f"{name}.rule.yaml").write_text(json.dumps(rule))
    old = (volume / "..data").resolve() if version else None
    (volume / "..data_tmp").symlink_to(folder.name)
    (volume / "..data_tmp").rename(volume / "..data")
    if old is not None:
        for path in old.iterdir():
            path.unlink()
        old.rmdir()


def _judged(server: Any) -> dict[str, set[str]]:
    """The rules by which each trace was judged."""
    found: dict[str, set[str]] = {}
    listed = server.cli("results", "list", "--format", "json", "--limit", "100000", "--data-dir", str(server.data))
    for line in listed.stdout.splitlines():
        result = json.loads(line)
        found.setdefault(result["trace_id"], set()).add(result["rule_id"])
    return found
