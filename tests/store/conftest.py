from store.engines import empty_store, engine, postgresql, sqlite
from store.ten_traces import filled

__all__ = ["empty_store", "engine", "filled", "postgresql", "sqlite"]
