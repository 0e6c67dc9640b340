from build.engines import engine, postgresql, sqlite

__all__ = ["engine", "postgresql", "sqlite"]
