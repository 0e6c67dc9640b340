"""Shares among all results and among those that were kept: samples may keep every fail and few of the passes."""

from tracegrade.model.tally import Tally
from tracegrade.rule.rule import Rule


def as_kept(share: float, ratio: float) -> float:
    """The share of passes among kept results when all fails are kept, and passes with probability `ratio`."""
    return share * ratio / (share * ratio + 1 - share)


def as_happened(share: float, ratio: float) -> float:
    """The share of passes among all results, from that among kept ones: the inverse of `as_kept`."""
    return share / (share + ratio * (1 - share))


def kept_ratio(rule: Rule, tally: Tally) -> float:
    """How often a pass is kept for each fail that is; by what was kept, since a rule's sample may be edited."""
    share, keeps_fails = rule.sample.share, rule.sample.keep_failures
    passes = tally.passed / tally.all_passed if tally.passed else share
    fails = tally.failed / tally.all_failed if tally.failed else 1.0 if keeps_fails else share
    return passes / fails
