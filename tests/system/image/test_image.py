"""Both images, built and run: as user 10001, over a root that cannot be written, with loopback alone."""

import json
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from image.builder import BASE, Builder, lacking
from image.container import Container

from tracegrade.rule.load import builtin_rules
from waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(lacking()), reason=lacking()), pytest.mark.timeout(3000)]

EXTRAS = ("confluent_kafka", "psycopg", "pyarrow")
RENDERED = Path(__file__).parents[1] / "chart" / "rendered" / "standalone.yaml"
FAILS = builtin_rules() / "demo" / "order-steps-out-of-order" / "traces" / "openinference_stock_never_checked.json"
# Runs inside: no port of a container can be reached from elsewhere.
POST = """
import sys, urllib.request
body = sys.stdin.buffer.read()
request = urllib.request.Request("http://127.0.0.1:4318/v1/traces", body, {"Content-Type": "application/json"})
print(urllib.request.urlopen(request).status)
"""


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("images"))


@dataclass(frozen=True)
class Image:
    target: str
    root: Path
    configuration: dict[str, Any]


@pytest.fixture(scope="module", params=["slim", "full"])
def image(request: pytest.FixtureRequest, builder: Builder) -> Image:
    builder.target(request.param)
    name = f"localhost/tracegrade:{request.param}"
    return Image(request.param, builder.root_of(name), builder.configuration(name))


@pytest.fixture
def container(image: Image, tmp_path: Path) -> Iterator[Container]:
    """With the settings and the rule of the chart, at the places where its pod has them."""
    made = Container(image.root, image.configuration, tmp_path)
    for manifest in yaml.safe_load_all(RENDERED.read_text()):
        for name, text in manifest["data"].items() if manifest["kind"] == "ConfigMap" else ():
            ((made.settings if name == "config.yaml" else made.rules) / name).write_text(text)
    yield made
    made.kill()


def test_the_image_says_who_runs_what_and_where(image: Image) -> None:
    found = image.configuration
    assert found["User"] == "10001:10001"
    assert set(found["ExposedPorts"]) == {"4317/tcp", "4318/tcp", "4319/tcp", "8888/tcp"}
    assert (found["Entrypoint"], found["Cmd"]) == (["tracegrade"], ["serve"])
    label = "org.opencontainers.image."
    assert (found["Labels"][f"{label}version"], found["Labels"][f"{label}base.name"]) == ("1.2.3", BASE)


def test_its_user_owns_the_data_folder_alone_and_finds_no_pip(image: Image, capsys: pytest.CaptureFixture[str]) -> None:
    data = (image.root / "var/lib/tracegrade").stat()
    assert (stat.S_IMODE(data.st_mode), data.st_uid, data.st_gid) == (0o700, 10001, 10001)
    owned = ["find", image.root, "-xdev", "(", "-uid", "10001", "-o", "-gid", "10001", ")", "-printf", "%P\n"]
    assert subprocess.run(owned, check=True, capture_output=True, text=True).stdout.split() == ["var/lib/tracegrade"]
    packages = {path.name for path in (image.root / "opt/tracegrade/lib").glob("python3*/site-packages/*")}
    assert "pip" not in packages
    assert set(EXTRAS) & packages == (set(EXTRAS) if image.target == "full" else set())
    with capsys.disabled():
        print(
            f"\n{image.target}: {_mib(image.root)} MiB, TraceGrade and its packages {_mib(image.root / 'opt')} of them"
        )


def _mib(folder: Path) -> int:
    done = subprocess.run(["du", "-sxm", "--apparent-size", folder], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[0])


def test_what_was_answered_is_judged_after_a_kill(container: Container) -> None:
    container.start()
    inside = container.run(
        "sh", "-c", "id -u; touch /opt/tracegrade/x; grep CapEff /proc/1/status; ip -o link || cat /proc/net/dev"
    )
    assert inside.stdout.startswith("10001\n")
    assert "CapEff:\t0000000000000000" in inside.stdout
    assert "Read-only file system" in inside.stderr
    sent = container.run("python", "-c", POST, stdin=FAILS.read_text())
    assert sent.stdout == "200\n", sent.stderr
    container.kill()
    assert _results(container) is None, "nothing answers after a kill"
    container.start()
    results = eventually(lambda: _results(container), "the evaluation", every_s=1)
    assert {(found["rule_id"], found["outcome"]) for found in results} == {("checkout-order", "fail")}
    assert container.stop() == 0


def _results(container: Container) -> list[dict[str, Any]] | None:
    asked = container.run("tracegrade", "results", "list", "--format", "json")
    return [json.loads(line) for line in asked.stdout.splitlines()] or None


def test_settings_that_are_not_there_are_named(container: Container) -> None:
    (container.settings / "config.yaml").unlink()
    with pytest.raises(AssertionError, match=r"/etc/tracegrade/config\.yaml"):
        container.start()
