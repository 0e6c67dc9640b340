from store.engines import engine, postgresql, sqlite
from store.ten_traces import filled

__all__ = ["engine", "filled", "postgresql", "sqlite"]
