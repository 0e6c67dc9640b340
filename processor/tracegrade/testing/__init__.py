"""In an agent's own tests: spans collected from the test's process or from others, judged by the path itself.

Takes: the spans and log records of a test, from the OpenTelemetry SDK or over OTLP.
Gives: traces and sessions judged by rules, as ``tracegrade replay`` judges them, and assertions on them.
May lose: nothing unsaid; what could not be judged is no pass, and the failure says why.

``pytest_plugin.py`` beside this folder is how pytest finds it; it loads nothing of this before a test asks for it.
"""
