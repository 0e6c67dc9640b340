"""The product without the folders of parts: the demo, a whole serve, and the parts coming back."""

import json
import os
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from build.served import Server
from build.without_parts import product_without
from waiting import eventually

pytestmark = pytest.mark.long

_PATHS = {"compare": ("/compare",), "suites": ("/suites", "/evals", "/api/tool-suites", "/api/v1/jobs")}


def _status(server: Server, path: str) -> int:
    try:
        with urlopen(f"{server.endpoints['web']}{path}") as response:
            return int(response.status)
    except HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("names", [("compare",), ("suites",), ("compare", "suites")], ids=" and ".join)
def test_demo_and_serve_run_without_parts_and_serve_takes_them_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    root, gone = product_without(tmp_path / "product", *names), {path for name in names for path in _PATHS[name]}
    command = [sys.executable, "-m", "tracegrade", "demo", "--once"]
    demo = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": root}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert demo.returncode == 0, demo.stderr
    assert "order-steps-out-of-order" in demo.stdout

    server = Server(tmp_path)
    with monkeypatch.context() as without:
        without.setenv("PYTHONPATH", root)
        server.start()
    eventually(lambda: _status(server, "/api/v1/results") == HTTPStatus.OK, "the store")
    assert {_status(server, path) for path in gone} == {HTTPStatus.NOT_FOUND}
    with urlopen(f"{server.endpoints['web']}/api/v1/openapi.json") as response:
        assert not {f"/api/v1{path}" for path in json.load(response)["paths"]} & gone
    assert server.stop() == 0

    server.start()
    eventually(lambda: {_status(server, path) for path in gone} == {HTTPStatus.OK}, "the tables of the parts")
    assert server.stop() == 0
