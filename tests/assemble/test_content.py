from dataclasses import replace

from build import trace
from tracegrade.assemble.content import digest, is_same_otherwise_kept


def test_the_digest_of_a_span_with_unread_keys_is_that_which_earlier_versions_stored() -> None:
    (span,) = trace([{"id": 1, "attributes": {"a": 1}, "unread_keys": ["acme.tool"]}]).spans
    earlier = replace(span, attributes={"a": 1, "tracegrade.unread_keys": ["acme.tool"]}, unread_keys=None)
    assert digest(span) == digest(earlier)
    assert digest(span) != digest(replace(span, unread_keys=None))


def test_unread_keys_tell_contents_apart_when_both_have_them() -> None:
    (span,) = trace([{"id": 1, "unread_keys": ["acme.tool"]}]).spans
    assert is_same_otherwise_kept(span, replace(span, unread_keys=None))
    assert is_same_otherwise_kept(replace(span, unread_keys=None), span)
    assert not is_same_otherwise_kept(span, replace(span, unread_keys=("acme.args",)))
