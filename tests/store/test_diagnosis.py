"""What broke, as it is stored: read back, also as other versions wrote it; and without deleted traces."""

from dataclasses import asdict

from tracegrade.store.diagnosis import Change, Diagnosis, Reason, Slice, without_traces

FOUND = Diagnosis(
    reasons=[Reason("order", "Not called.", 2, 3, 0.5, example="found 5", trace_id="aa")],
    slices=[Slice("release", "1.1", 0.9, 0.5, None, 0.25)],
    changes=[Change("release", 60, "release 1.1 first seen")],
    examples=["aa", "bb"],
    traces=3,
    more_traces=True,
)


def test_what_is_written_is_read_back() -> None:
    assert Diagnosis.from_json(FOUND.to_json()) == FOUND


def test_what_other_versions_wrote_is_read_as_far_as_it_is_known() -> None:
    later = FOUND.to_json() | {"new": 1}
    later["reasons"][0] |= {"colour": "red"}
    del later["slices"][0]["share"], later["traces"]
    found = Diagnosis.from_json(later)
    assert found.reasons == FOUND.reasons
    assert found.slices == [Slice("release", "1.1", 0.9, 0.5, None, 0.0)]
    assert found.traces == 0
    assert Diagnosis.from_json({}) == Diagnosis()


def test_deleted_traces_are_named_no_more_and_their_values_are_gone() -> None:
    facts = {"worst": ["aa", "bb"], "reasons": FOUND.to_json()["reasons"], "slices": FOUND.to_json()["slices"]}
    of_customer = asdict(Slice("app.customer", "acme"))
    left = without_traces({**facts, "slices": [*facts["slices"], of_customer]}, {"aa"})
    assert left["slices"] == facts["slices"]
    assert left["worst"] == ["bb"]
    assert (left["reasons"][0]["example"], left["reasons"][0]["trace_id"]) == ("", "")
    assert left["reasons"][0]["count"] == 2
    assert without_traces(facts, {"cc"}) == facts
