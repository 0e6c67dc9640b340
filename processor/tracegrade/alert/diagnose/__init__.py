"""What broke when an alert begins to fire: why results are bad, which slices of them, and what changed near that time.

Takes an alert and the store, gives a `Diagnosis`. Results since the beginning are compared with those of seven days
before it. Counts are exact and read from sums; all else is read from stored traces that are spread evenly over both
times, bad results apart from good ones, each at most as many as `cases.MOST_CASES`. So the cost does not grow with the
number of results: at most four times `store.spread.MOST_ROWS` rows of traces are read without their values, and of
three times `cases.MOST_READ` traces the values or the spans, too. `tests/system/bench/diagnose.py` measures it.
"""
