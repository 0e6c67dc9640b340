"""Reading by shape: tool calls of spans that no dialect knows, by what their keys and values look like.

Takes the spans that decoding kept whole (`look`). Each is made one JSON value (`document`), in which kinds (`kinds`),
names (`names`), values (`values`) and messages (`messages`) are found by the words on their keys (`words`).
`executions` says which spans are executions of tools, and `reader` writes what was found under keys of our own, which
the last of all dialects, `shape`, reads. So requests, executions and results are joined as those of any other dialect.
"""
