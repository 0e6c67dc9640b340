"""The curve of an incident as it is drawn."""

import re
from xml.etree import ElementTree

from build import each
from tracegrade.store.schema import MINUTE_NS
from tracegrade.web.charts.curves import Level, Mark, curve, small_curve
from tracegrade.web.watched_values import Value, WatchedValues

NOW = 1_767_225_600_000_000_000
HOUR = 60 * MINUTE_NS


def found(
    *values: float, began: int = 12, is_count: bool = False, usual: tuple[float, float] | None = None
) -> WatchedValues:
    since = NOW - 24 * HOUR
    steps = [Value(since + place * HOUR, since + (place + 1) * HOUR, value, 20) for place, value in enumerate(values)]
    return WatchedValues(since, NOW, since + began * HOUR, 60, steps, usual, is_count)


def percent(value: float) -> str:
    return f"{value:.0%}"


def marks(values: WatchedValues) -> list[Mark]:
    began = values.began_ns
    return [Mark("began", "began then", began), Mark("found", "found <soon>", began + HOUR)]


def texts(svg: str, name: str) -> list[ElementTree.Element]:
    return [text for text in ElementTree.fromstring(svg).iter("text") if str(text.get("class")).startswith(name)]


@each(
    "values",
    [
        found(),
        found(0.5),
        found(*[0.0] * 24),
        found(*[1.0] * 24, usual=(1.0, 1.0)),
        found(*[0.0] * 24, is_count=True),
        found(*range(24), is_count=True),
        found(*[25_300.0] * 24),
    ],
    ids=["none", "one", "nothing passes", "all pass", "none came", "numbers", "tokens"],
)
def test_every_curve_can_be_drawn(values: WatchedValues) -> None:
    for levels in ([], [Level("was", "before 97%", 0.97), Level("bound", "bound 95%", 0.95)]):
        svg = curve(values, levels, marks(values), 'said "so"', percent)
        drawn = ElementTree.fromstring(svg)
        assert drawn.get("aria-label") == 'said "so"'
        assert not re.search(r"nan|inf\b", svg)
        assert {"began then", "found <soon>"} <= {text.text for text in texts(svg, "name")}
        ElementTree.fromstring(small_curve(values, levels, "said"))


def test_no_share_above_one_stands_beside_the_curve() -> None:
    ticks = texts(curve(found(0.6, *[1.0] * 23), [], marks(found()), "", percent), "tick")
    shown = [str(tick.text) for tick in ticks if str(tick.text).endswith("%")]
    assert shown == ["60%", "80%", "100%"]
    ticks = texts(curve(found(*[1.0] * 24), [], marks(found()), "", percent), "tick")
    assert [tick.text for tick in ticks if str(tick.text).endswith("%")] == ["95%", "100%"]


def test_values_are_drawn_from_low_to_high_and_from_left_to_right() -> None:
    dots = list(ElementTree.fromstring(curve(found(0.2, 0.9), [], marks(found()), "", percent)).iter("circle"))
    (x, y), (next_x, next_y) = ((float(str(dot.get("cx"))[:-1]), float(str(dot.get("cy")))) for dot in dots)
    assert next_x > x
    assert next_y < y


def test_a_gap_without_results_breaks_the_line() -> None:
    values = found(*[0.9] * 24)
    with_gap = WatchedValues(
        values.since_ns, values.until_ns, values.began_ns, 60, values.values[:8] + values.values[16:], None
    )
    assert curve(values, [], marks(values), "", percent).count("<polyline") == 1
    assert curve(with_gap, [], marks(values), "", percent).count("<polyline") == 2


def test_the_name_of_a_line_stands_away_from_the_values_and_from_the_other_line() -> None:
    fell, rose = found(*[0.9] * 12, *[0.4] * 12), found(*[0.1] * 12, *[0.6] * 12)

    def names(values: WatchedValues, *levels: Level) -> list[bool]:
        """Whether each name stands above its line."""
        svg = curve(values, levels, marks(values), "", percent)
        lines = [
            line for line in ElementTree.fromstring(svg).iter("line") if str(line.get("class")).startswith("level")
        ]
        heights = [float(str(line.get("y1"))) for line in lines]
        words = [text for text in texts(svg, "name") if str(text.get("class"))[5:] in ("was", "bound")]
        return [float(str(text.get("y"))) < y for text, y in zip(words, heights, strict=True)]

    was, bound = Level("was", "before", 0.9), Level("bound", "bound", 0.85)
    assert names(fell, was) == [True]
    assert names(rose, Level("was", "before", 0.1)) == [False]
    assert names(fell, was, bound) == [True, False]


def test_names_of_moments_have_a_line_of_text_each() -> None:
    for began in (2, 20):
        values = found(*[0.9] * 24, began=began)
        heights = [text.get("y") for text in texts(curve(values, [], marks(values), "", percent), "name")]
        assert len(set(heights)) == 2
