"""Pure functions: what happened and what was expected in, a score and its details out.

Takes the calls of one subject (`Evidence`) and an evaluator's criteria and settings; gives a `Score`. Loses nothing:
where something cannot be read, a score has the range of all that it may be (`unknown`), and what cannot be scored is an
`EvaluatorError` with a type. Cost: bounded by work (`work.WORK_LIMIT` steps), never by time; no clock, no network, no
log, no server is loaded.

    from tracegrade.evaluate.evidence import Evidence
    from tracegrade.evaluate.registry import EVALUATORS

    order = EVALUATORS["tool-call-order"]
    criteria = order.read_criteria({"tool_calls_order": ["search", "book"]})
    order.evaluate(Evidence(calls), criteria, order.Settings()).score

A new evaluator is one file with an ``EVALUATOR``, one line in ``registry.py`` and one file of cases.
"""
