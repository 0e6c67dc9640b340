"""Shares among all results and among those that were kept: samples may keep every fail and few of the passes."""

from tracegrade.rule.rule import Rule
from tracegrade.store.history import Outcomes


def as_kept(share: float, ratio: float) -> float:
    """The share of passes among kept results when all fails are kept, and passes with probability `ratio`."""
    return share * ratio / (share * ratio + 1 - share)


def as_happened(share: float, ratio: float) -> float:
    """The share of passes among all results, from that among kept ones: the inverse of `as_kept`."""
    return share / (share + ratio * (1 - share))


def kept_ratio(rule: Rule, outcomes: Outcomes) -> float:
    """How often a pass is kept for each fail that is; by what was kept, since a rule's sample may be edited."""
    share, keeps_fails = rule.sample.share, rule.sample.keep_failures
    passes = outcomes.passed / outcomes.all_passed if outcomes.passed else share
    fails = outcomes.failed / outcomes.all_failed if outcomes.failed else 1.0 if keeps_fails else share
    return passes / fails
