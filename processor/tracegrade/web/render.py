"""Templates to pages."""

import json
import math
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from tracegrade.display import count, elapsed_text, json_text, judged_score_text, time_text, took_text
from tracegrade.document.duration import duration_text
from tracegrade.evaluate.compare.differences import origin
from tracegrade.part import Section, parts, placed
from tracegrade.web import addresses
from tracegrade.web.part import web_parts
from tracegrade.web.rights import caller_in
from tracegrade.web.view import RANGES, View, iso_text

_TEMPLATES = Path(__file__).with_name("templates")

_OWN_SECTIONS = (
    Section("/", "Overview"),
    Section("/traces", "Traces"),
    Section("/sessions", "Sessions"),
    Section("/rules", "Rules"),
    Section("/alerts", "Alerts"),
    Section("/experiments", "Experiments", group="Tests", about="runs, with their scores from one to the next"),
    Section("/ingest", "System"),
)

SECTIONS = tuple(
    placed(
        {section.address: section for section in _OWN_SECTIONS},
        [(section.address, section.after, section) for part in parts() for section in part.sections],
    ).values()
)


def _navigation() -> dict[str, list[Section]]:
    """The items of the navigation by name; a group is where its last section is."""
    found: dict[str, list[Section]] = {}
    for section in SECTIONS:
        name = section.group or section.name
        found[name] = [*found.pop(name, []), section]
    return found


NAVIGATION = _navigation()

# Pages that belong to a section with another address.
_WITHIN = {"/incidents": "/alerts", "/silences": "/alerts", "/runs": "/experiments"}

_ADDRESSES = (
    addresses.address,
    addresses.experiment_address,
    addresses.run_address,
    addresses.session_address,
    addresses.span_address,
    addresses.spans_at,
    addresses.trace_address,
)

# Marks of outcomes, in addition to colour.
_SIGNS = {
    "pass": ("✓", "pass"),
    "fail": ("✗", "fail"),
    "not_evaluable": ("–", "not evaluable"),
    "error": ("!", "error"),
    "not_matched": ("·", "not matched"),
    "sampled_out": ("·", "sampled out"),
    "not_judged": ("·", "not judged"),
}


def page(
    request: Request, template: str, *, view: View | None = None, status: int = 200, **values: Any
) -> HTMLResponse:
    """The page made from `template` and `values`; links to other sections keep the time range of `view`.

    Strangers, who may see no section, are shown no links to them.
    """
    shown = request.scope["path"]
    shown = next((section for path, section in _WITHIN.items() if shown.startswith(path)), shown)
    fitting = (path for path in (section.address for section in SECTIONS) if shown.startswith(path) and path != "/")
    current = next(fitting, shown)
    caller = caller_in(request.scope)
    seen = NAVIGATION if caller is not None else {}
    link = str if view is None else view.section
    sections, siblings = [], []
    for name, of in seen.items():
        linked = [(link(section.address), section, section.address == current) for section in of]
        is_current = any(marked for _, _, marked in linked)
        sections.append((linked[0][0], name, is_current))
        if is_current and len(of) > 1:
            siblings = linked
    signed_in = any(name.endswith("tracegrade") for name in request.cookies)
    values |= {"view": view, "sections": sections, "siblings": siblings, "signed_in": signed_in}
    values["reads_values"] = caller is not None and caller.may("read-values")
    text = _environment().get_template(template).render(values)
    return HTMLResponse(text, status)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader([_TEMPLATES, *filter(None, (part.templates for part in web_parts()))]),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,  # files that an upgrade or a checkout is writing are not those of this process
        trim_blocks=True,
        lstrip_blocks=True,
    )
    of_parts = [function for part in web_parts() for function in part.addresses]
    environment.globals |= {"signs": _SIGNS, "range_names": list(RANGES)}
    environment.globals |= {function.__name__: function for function in (*_ADDRESSES, *of_parts)}
    environment.filters |= {
        "time": _time,
        "elapsed": _elapsed,
        "took": _took,
        "percent": _percent,
        "interval": _interval,
        "rate": lambda rate: f"{rate:.2g}" if rate < 10 else f"{rate:.0f}",
        "json": json_text,
        "judged_score": judged_score_text,
        "number": _number,
        "count": count,
        "cost": _cost,
        "iso": iso_text,
        "pretty": _pretty,
        "excerpt": _excerpt,
        "origin": origin,
        "duration": duration_text,
        "shell": quote,
        "short": lambda text: text[:8],
        "signed": lambda value: f"{value + 0.0:+.4f}".replace("-", "\N{MINUS SIGN}"),
    }
    return environment


def _pretty(value: Any) -> str:
    """JSON over several lines, for values that people read."""
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _excerpt(value: Any, length: int = 160) -> str:
    """Compact JSON, cut."""
    text = json_text(value)
    return text if len(text) <= length else text[:length] + "…"


def _elapsed(elapsed_ns: int) -> str:
    """As on the command line; from 100 s on in minutes, from 100 min on in hours."""
    seconds = elapsed_ns / 1_000_000_000
    if seconds < 100:
        return elapsed_text(elapsed_ns)
    return f"{seconds / 60:.3g} min" if seconds < 6000 else f"{seconds / 3600:.3g} h"


def _took(part: Any) -> str:
    """How long a trace, span, session or call took, from its ``start_ns`` and ``end_ns``."""
    return _elapsed(part.end_ns - part.start_ns) if part.end_ns else took_text(part.start_ns, 0)


def _time(time_ns: int) -> Markup:
    if not time_ns:
        return Markup("")
    machine = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        machine, time_text(time_ns), time_text(time_ns)
    )


def _percent(share: float | None) -> str:
    """``97.3 %``; never 100 or 0 for values that are only nearly so."""
    if share is None:
        return "–"
    shown = f"{share:.1%}"
    if shown == "100.0%" and share < 1:
        shown = ">99.9%"
    elif shown == "0.0%" and share > 0:
        shown = "<0.1%"
    return shown.replace(".0%", "%").replace("%", "\N{NARROW NO-BREAK SPACE}%")


def _interval(bounds: tuple[float, float]) -> str:
    """``91.4–96.1 %``."""
    low, high = (f"{bound:.1%}".removesuffix("%").removesuffix(".0") for bound in bounds)
    return f"{low}–{high}\N{NARROW NO-BREAK SPACE}%"


def _cost(amount: float) -> str:
    """Two significant digits at least, and no exponent: ``0.055``, ``12.30``."""
    return f"{amount:.2f}" if amount >= 1 or not amount else f"{amount:.{min(12, 1 - math.floor(math.log10(amount)))}f}"


def _number(value: float) -> str:
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
