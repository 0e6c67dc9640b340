"""Extraction: a trace in, its agent runs and tool calls out.

Takes: a closed `Trace`. Gives: an `Extraction`: one `ToolCall` for each real call, however many spans, messages and
instrumentations show it, in one total order, and the agent runs that made them. May lose: nothing; what cannot be
read is kept as text and says so in its status. Order: calls by (start, position in the asking message, end, span id),
runs by start. Cost: linear in spans and in bytes decoded.

The way through: `registry` knows the dialects and asks each what a span is (`scan`); a dialect says which attributes
hold what; `values` and `unwrap` turn what frameworks write into JSON; `pairing` joins request, execution and result;
`runs` finds who made the calls.
"""
