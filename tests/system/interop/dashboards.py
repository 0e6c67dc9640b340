"""Every query of the dashboards, asked of a real Prometheus that scrapes a TraceGrade at work."""

import re
import subprocess
from collections.abc import Iterator

from end_to_end.test_alert import RULE
from generator.dashboards import dashboards as generated
from generator.panels import HEALTH_ROWS, RESULT_ROWS, Panel
from interop import peers
from interop.peers import Place, Row
from interop.prometheus_alerts import BAD, GOOD, Scene, scene_of

from build.served import Downstream, exporter

# Prometheus scrapes each second here.
FILLED = {"__rate_interval": "15s", "__range_s": "300", "__range": "300s"}
WITH_BUDGET = RULE | {"id": "order-without-check-by-budget", "alert": [{"slo": {"objective": 0.9, "window": "1d"}}]}


def dashboards(place: Place) -> Iterator[Row]:
    """Each panel of both dashboards has a point, or the table says why it has none, and then it has none."""
    yield from _typed(place)
    yield from _asked(place)


def _typed(place: Place) -> Iterator[Row]:
    """Grafana's own types know every property of the JSON, but for the options of panels, which they leave open."""
    folder = place.installed / "grafana"
    if not (folder / "node_modules").exists():
        packages = ["@grafana/schema", "typescript"]
        peers.install(["npm", "install", "--no-audit", "--no-fund", "--prefix", ".", *packages], folder)
    for path, text in generated().items():
        typed = f"export const dashboard = {text.strip()} satisfies Partial<Dashboard>;\n"
        (folder / f"{path.stem}.ts").write_text(f'import type {{ Dashboard }} from "@grafana/schema";\n{typed}')
    check = ["npx", "tsc", "--noEmit", "--skipLibCheck", "--strict", "--module", "nodenext"]
    files = [f"{path.stem}.ts" for path in generated()]
    done = subprocess.run([*check, *files], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    yield Row("@grafana/schema", "tsc, both dashboards", "nothing to say")


def _asked(place: Place) -> Iterator[Row]:
    downstream = Downstream()
    with scene_of(place, WITH_BUDGET, exporters=exporter(downstream)) as scene:
        for name, rows in (("results", RESULT_ROWS), ("health", HEALTH_ROWS)):
            panels = [panel for row in rows.values() for panel in row]
            for panel in panels:
                if not panel.empty:
                    scene.until(
                        lambda panel=panel: _answer(scene, panel), f"a point of {panel.title!r}: {filled(panel)}"
                    )
            for panel in panels:
                assert bool(_answer(scene, panel)) == (not panel.empty), f"{panel.title!r}: {panel.empty or 'no point'}"
            empty = sum(bool(panel.empty) for panel in panels)
            yield Row(
                "Prometheus",
                f"{name}.json: {len(panels)} queries",
                f"{empty} say why they have no point, and have none",
            )
        first = next(iter(RESULT_ROWS.values()))[0]
        (found,) = scene.api("query", query=filled(first).replace("topk(20", "topk(1"))["result"]
        assert found["metric"]["rule"].startswith("order-without-check"), found
        yield Row("Prometheus", f"the panel {first.title!r}", f"names {found['metric']['rule']}")
        exemplars = scene.api("query_exemplars", query=filled(with_exemplars()), start=0, end=9_999_999_999)
        assert exemplars, "no exemplar"
        yield Row(
            "Prometheus", f"the panel {with_exemplars().title!r}: exemplars", f"{len(exemplars)} series have some"
        )
    downstream.stop()


def _answer(scene: Scene, panel: Panel) -> list[float]:
    """The points of now, while traces come."""
    scene.send("falling", GOOD, 2)
    scene.send("falling", BAD, 1)
    return [value for value in scene.values(filled(panel)) if value == value]  # 0 / 0 is no point


def filled(panel: Panel) -> str:
    """The query as Grafana asks it with everything chosen."""
    return re.sub(r"\$(\w+)", lambda found: FILLED.get(found[1], ".*"), panel.query)


def with_exemplars() -> Panel:
    return next(panel for row in RESULT_ROWS.values() for panel in row if panel.exemplars)
