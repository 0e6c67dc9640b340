"""The records that travel along the path; no behaviour but what follows from their fields.

``Span``, ``LogRecord`` and ``Trace`` are what assembly makes, ``ToolCall``, ``AgentRun`` and ``Session`` what
extraction reads out of them, ``Subject`` what a rule judges, ``Evaluation`` and ``Decision`` what results from it.
"""
