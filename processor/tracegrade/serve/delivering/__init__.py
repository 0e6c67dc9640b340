"""The delivering thread: ``delivery.py`` brings results to sinks and alerts, from where ``upstream.py`` says.

Beside it, ``store_upkeep.py``, ``parquet_upkeep.py``, ``deletion_upkeep.py`` and ``leftovers.py`` delete what is old,
and what people asked to have deleted.
"""
