"""All settings: joined from the sections of the stages, read from one file, checked together."""

from tracegrade.config.config import Config, JudgeSettings, RulesSettings, TelemetrySettings, WebSettings
from tracegrade.config.load import load_config, settings_schema

__all__ = [
    "Config",
    "JudgeSettings",
    "RulesSettings",
    "TelemetrySettings",
    "WebSettings",
    "load_config",
    "settings_schema",
]
