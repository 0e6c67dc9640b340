"""All matchers, by the word that stands for each in rules, in the order in which tables show them."""

from tracegrade.evaluate.criteria.data_flow import FromMatcher
from tracegrade.evaluate.criteria.matcher import Matcher
from tracegrade.evaluate.criteria.text_matchers import (
    CaseInsensitiveMatcher,
    ContainsMatcher,
    GlobMatcher,
    RegexMatcher,
    SemanticMatcher,
    SimilarityMatcher,
)
from tracegrade.evaluate.criteria.value_matchers import (
    AbsentMatcher,
    AnyMatcher,
    GteMatcher,
    GtMatcher,
    LengthMatcher,
    LteMatcher,
    LtMatcher,
    NumericToleranceMatcher,
    OneOfMatcher,
    SchemaMatcher,
    SecretMatcher,
    TypeMatcher,
)

MATCHERS_BY_WORD: dict[str, type[Matcher]] = {
    matcher.word: matcher
    for matcher in (
        CaseInsensitiveMatcher,
        ContainsMatcher,
        RegexMatcher,
        GlobMatcher,
        SimilarityMatcher,
        SemanticMatcher,
        NumericToleranceMatcher,
        GteMatcher,
        GtMatcher,
        LteMatcher,
        LtMatcher,
        TypeMatcher,
        LengthMatcher,
        SchemaMatcher,
        SecretMatcher,
        OneOfMatcher,
        AnyMatcher,
        AbsentMatcher,
        FromMatcher,
    )
}
