"""The document of the operations under ``/api``."""

from generator.api import document

TOOL_EVAL_DOCUMENT = document("tool-eval-api")
