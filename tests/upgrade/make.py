"""Makes ``VERSION.tar.xz``: a data folder as a version left it, with what it said of it. Run with that version.

    git archive COMMIT | tar -x -C /tmp/earlier
    cd /tmp/earlier && PYTHONPATH=processor:tests python .../tests/upgrade/make.py .../tests/upgrade/0022.tar.xz

Inside: ``rules/`` (as they were at last), ``data/`` (store, journals, positions), and ``said/``: what ``results list``,
``alerts list`` and ``replay`` printed as JSON.
"""

import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from build.otlp import agent_span, payload, spans_of, tool_span
from build.served import Server, export
from build.stored_alerts import ALERT, store_incident
from pipeline.test_sessions import turn
from tracegrade.store.open import checkpoint, open_store
from waiting import eventually

CHECKED = """\
id: order-without-check
title: Orders are checked before creation
level: high
match: {agent: order-agent}
evaluate:
  - evaluator: tool-call-order
    tool_calls_order: [check_inventory, create_order]
"""
SIGNED = """\
id: order-unsigned
title: Orders are signed
level: critical
scope: tool-call
match:
  tools: create_order
evaluate:
  - evaluator: tool-call-args
    subset: true
    tool_calls: [{name: create_order, args: {signed: true}}]
"""
LOOKED_UP = """\
id: looked-up-first
scope: session
evaluate: [{evaluator: tool-call-order, tool_calls_order: [find_order, refund]}]
"""


def make(folder: Path) -> None:
    """Fill `folder`."""
    rules, said = folder / "rules", folder / "said"
    rules.mkdir()
    said.mkdir()
    for name, text in (("checked", CHECKED), ("signed", SIGNED), ("looked-up", LOOKED_UP)):
        (rules / f"{name}.rule.yaml").write_text(text)
    server = Server(
        folder,
        rules={"paths": [str(rules)], "reload": "200ms"},
        traces={"settle": "300ms", "idle_timeout": "2s", "session_quiet": "2s"},
        journal={"segment_size_mib": 1},
    )
    server.start()

    def cli(*command: str) -> str:
        shown = server.cli(*command, "--format", "json", "-c", str(server.config))
        assert shown.exit_code == 0, shown.stderr
        return shown.stdout

    def bad(trace: int) -> None:
        spans = [agent_span(trace, 1), tool_span(trace, 2, 1, "create_order", '{"signed": false}')]
        export(server.endpoints["grpc"], payload(spans))

    def good(trace: int) -> None:
        calls = [tool_span(trace, 2, 1, "check_inventory"), tool_span(trace, 3, 1, "create_order", '{"signed": true}')]
        export(server.endpoints["grpc"], payload([agent_span(trace, 1), *calls]))

    def listed(count: int) -> Callable[[], bool]:
        return lambda: (server.data / "tracegrade.db").exists() and len(cli("traces", "list").splitlines()) == count

    for trace in range(1, 5):
        bad(trace)
    good(5)
    export(server.endpoints["grpc"], payload(spans_of(turn(101, "chat-1", "find_order", 1000))))
    eventually(listed(6), "six traces")
    bad(6)
    export(server.endpoints["grpc"], payload([tool_span(1, 3, 1, "check_inventory")]))  # late
    export(server.endpoints["grpc"], payload(spans_of(turn(102, "chat-1", "refund", 2000))))
    eventually(listed(8), "all traces")
    eventually(lambda: '"close_reason":"quiet"' in cli("results", "list"), "the session to be over")
    server.stop()
    engine = open_store(f"sqlite:///{server.data / 'tracegrade.db'}")
    with engine.begin() as connection:
        store_incident(connection, ALERT)
    checkpoint(engine)
    engine.dispose()
    for name, command in (
        ("results", ("results", "list")),
        ("alerts", ("alerts", "list")),
        ("traces", ("traces", "list")),
        ("replay", ("replay", "--jobs", "1")),
    ):
        (said / f"{name}.jsonl").write_text(cli(*command))
    server.config.unlink()


def main() -> None:
    """Write the archive that the command line names."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                print(path.relative_to(folder), path.stat().st_size)
        with tarfile.open(target, "w:xz") as archive:
            for name in ("data", "rules", "said"):
                archive.add(Path(folder, name), name, filter=_anonymous)
        shutil.rmtree(Path(folder, "data"))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
