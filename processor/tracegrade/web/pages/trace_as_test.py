"""``/traces/{trace_id}/tests/{rule_id}.zip``: the trace as a test of the rule, as ``tracegrade promote`` writes it."""

import io
import zipfile
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.history.promote.beside_rule import Promoter
from tracegrade.history.promote.promotion import How
from tracegrade.history.promote.rule_test_files import RuleTestFiles
from tracegrade.model.errors import NotPossible
from tracegrade.rule.load import tests_path
from tracegrade.web.pages.trace import chosen_trace
from tracegrade.web.rights import check_right
from tracegrade.web.sources import sources_of

_SOME_DAY = (2026, 1, 1, 0, 0, 0)  # so that the same trace gives the same bytes


def download(request: Request) -> Response:
    """A zip of the trace, shortened and redacted, and a tests.yaml with its entry, in a folder named after the rule.

    Needs the right ``read-values``. 404: no such trace, or no such rule in force. 409: the trace cannot be a test of
    the rule; the answer says why.
    """
    check_right(request, "read-values")
    sources = sources_of(request)
    rule_id = request.path_params["rule_id"]
    rule_set = sources.rule_set()
    rule = next((rule for rule in rule_set.rules if rule.id == rule_id), None)
    if rule is None:
        raise HTTPException(404, f"Rule {rule_id} is not in force.")
    with sources.store() as connection:
        head = chosen_trace(connection, request).trace
        files = RuleTestFiles(tests_path(Path(rule_id, "rule.yaml")))
        try:
            Promoter(connection, head.run, rule, sources.config.traces, How(), head.tenant).add(files, [head.own_id])
        except NotPossible as error:
            raise HTTPException(409, str(error)) from None
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.files.items():
            archive.writestr(zipfile.ZipInfo(str(path), _SOME_DAY), text)
    name = f"{rule_id}-{head.own_id.hex()}.zip"
    return Response(
        written.getvalue(),
        media_type="application/zip",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
