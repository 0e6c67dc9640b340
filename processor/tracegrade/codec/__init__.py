"""Records to bytes and back: kept spans, and what was judged. The journal, the store and assembly hold the same."""
