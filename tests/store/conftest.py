from build.engines import engine, postgresql, sqlite
from build.ten_traces import filled

__all__ = ["engine", "filled", "postgresql", "sqlite"]
