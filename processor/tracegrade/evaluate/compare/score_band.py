"""A score in a word, as `tool-call-accuracy` says it."""

from typing import Literal, TypeAlias

Band: TypeAlias = Literal["excellent", "good", "moderate", "poor"]


def score_band(score: float) -> Band:
    """Excellent from 0.9, good from 0.7, moderate from 0.5, else poor."""
    if score >= 0.9:
        return "excellent"
    if score >= 0.7:
        return "good"
    return "moderate" if score >= 0.5 else "poor"
