"""Records to bytes and back: kept spans and results. The journal, the store and assembly hold the same bytes."""
