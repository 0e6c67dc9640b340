"""Grafana's JSON of the dashboards, from the table of `panels`."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generator.panels import EVALUATIONS, HEALTH_ROWS, RESULT_ROWS, Panel

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "grafana"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _WIDTH, _HEIGHT = 24, 8, 8
_OTHERS = {
    "type": "dashboards", "title": "TraceGrade", "tags": ["tracegrade"], "asDropdown": False, "icon": "external link",
    "includeVars": False, "keepTime": True, "targetBlank": False, "tooltip": "",
}  # fmt: skip
_RULE_PAGE = {"title": "Rule", "url": "${page}/rules/${__field.labels.rule}", "targetBlank": True}
_RULE_CELL = {"title": "Rule", "url": "${page}/rules/${__value.raw}", "targetBlank": True}


def dashboards() -> dict[Path, str]:
    """Each file with its content."""
    results = _dashboard(
        "results", "Results", RESULT_ROWS, EVALUATIONS, ("tenant", "service", "agent", "rule"), "now-6h"
    )
    health = _dashboard("health", "Health", HEALTH_ROWS, "tracegrade_build_info", ("job", "instance"), "now-1h")
    return {
        FOLDER / f"{name}.json": json.dumps(made, indent=2) + "\n"
        for name, made in (("results", results), ("health", health))
    }


def _dashboard(
    name: str, title: str, rows: Mapping[str, Iterable[Panel]], known_by: str, labels: Iterable[str], since: str
) -> dict[str, Any]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    address = "http://127.0.0.1:4319"
    page = {
        "name": "page", "label": "Address of TraceGrade", "type": "textbox", "query": address,
        "current": {"text": address, "value": address},
    }  # fmt: skip
    return {
        "uid": f"tracegrade-{name}",
        "title": f"TraceGrade: {title.lower()}",
        "tags": ["tracegrade"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": since, "to": "now"},
        "templating": {"list": [source, *(_variable(label, known_by) for label in labels), page]},
        "links": [_OTHERS],
        "panels": list(_panels(rows)),
    }


def _variable(label: str, known_by: str) -> dict[str, Any]:
    query = f"label_values({known_by}, {label})"
    return {
        "name": label, "label": label.capitalize(), "type": "query", "datasource": _SOURCE,
        "query": {"query": query, "refId": label}, "refresh": 2, "sort": 1,
        "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _panels(rows: Mapping[str, Iterable[Panel]]) -> Iterable[dict[str, Any]]:
    number = y = 0
    for title, panels in rows.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": _place(0, y, _COLUMNS, 1),
        }
        y += 1
        x = 0
        for panel in panels:
            if x == _COLUMNS:
                x, y = 0, y + _HEIGHT
            number += 1
            yield {"id": number, **_panel(panel), "gridPos": _place(x, y, _WIDTH, _HEIGHT)}
            x += _WIDTH
        y += _HEIGHT


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: Panel) -> dict[str, Any]:
    is_now = panel.kind != "timeseries"
    target = {"refId": "A", "datasource": _SOURCE, "expr": panel.query, "instant": is_now, "range": not is_now}
    target |= {"legendFormat": panel.legend or "__auto", "exemplar": panel.exemplars}
    target |= {"format": "table"} if panel.kind == "table" else {}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.sentence,
        "datasource": _SOURCE,
        "targets": [target],
        "fieldConfig": _fields(panel),
        "options": {},
    }


def _fields(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    defaults |= {"noValue": panel.empty} if panel.empty else {}
    overrides: list[dict[str, Any]] = []
    if panel.links_rule and panel.kind == "table":
        links = {"id": "links", "value": [_RULE_CELL]}
        overrides.append({"matcher": {"id": "byName", "options": "rule"}, "properties": [links]})
    elif panel.links_rule:
        defaults["links"] = [_RULE_PAGE]
    return {"defaults": defaults, "overrides": overrides}
