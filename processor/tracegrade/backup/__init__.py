"""A copy of a data folder and its SQLite store, made while ``serve`` works, and brought back from it.

Everything is copied in the order in which nothing can be missing from the copy: positions first, then results, the
store and the journal. So whatever a consumer had done up to its copied position is in what is copied later, and what it
did after that is done once more when the copy is served: results have ids, so writing one twice stores it once.
"""
