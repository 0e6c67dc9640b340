"""Expected calls laid beside the calls made: which call is counted as which expected call.

Each way gives one record, `Pairing`, which is stored with the score. `in_order` lays names and calls in an order, calls
made together in the best one: as many as possible, or position by position. `by_name` pairs calls of one name: in the
order in which they are written (*first*), as many as possible (*best*), or the second with the second (*positional*);
`best` finds the pairs that are worth most together. `step_alignment` lays calls beside `steps`.

Cost: linear where the calls are as expected; else bounded by `Work`.
"""
