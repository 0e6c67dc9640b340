"""All matchers, by the word that stands for each in rules, in the order in which tables show them."""

from tracegrade.evaluate.criteria import data_flow, text_matchers, value_matchers
from tracegrade.evaluate.criteria.matcher import Matcher

MATCHERS_BY_WORD: dict[str, type[Matcher]] = {
    matcher.word: matcher
    for matcher in (
        text_matchers.CaseInsensitiveMatcher,
        text_matchers.ContainsMatcher,
        text_matchers.RegexMatcher,
        text_matchers.GlobMatcher,
        text_matchers.SimilarityMatcher,
        text_matchers.SemanticMatcher,
        value_matchers.NumericToleranceMatcher,
        value_matchers.GteMatcher,
        value_matchers.GtMatcher,
        value_matchers.LteMatcher,
        value_matchers.LtMatcher,
        value_matchers.TypeMatcher,
        value_matchers.LengthMatcher,
        value_matchers.SchemaMatcher,
        value_matchers.SecretMatcher,
        value_matchers.OneOfMatcher,
        value_matchers.AnyMatcher,
        value_matchers.AbsentMatcher,
        data_flow.FromMatcher,
    )
}
