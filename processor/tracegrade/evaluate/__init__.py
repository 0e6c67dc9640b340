"""Pure functions: what happened and what was expected in, a score and its details out.

Takes the calls of one subject (`Evidence`) and an evaluator's criteria and settings; gives a `Score`. Loses nothing:
what cannot be judged is not_evaluable with a reason (`gate`), what cannot be scored is an `EvaluatorError` with a type.
Order: the gate, then the evaluator. Cost: bounded by work (`work.WORK_LIMIT` steps), never by time; no clock, no
network, no log, no server is loaded.

    from tracegrade.evaluate.evidence import Evidence
    from tracegrade.evaluate.registry import EVALUATORS

    order = EVALUATORS["tool-call-order"]
    criteria = order.read_criteria({"tool_calls_order": ["search", "book"]})
    order.evaluate(Evidence(calls), criteria, order.Settings()).score

A new evaluator is one file with an ``EVALUATOR``, one line in ``registry.py`` and one file of cases.
"""
