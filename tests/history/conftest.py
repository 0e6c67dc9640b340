from store.engines import empty_store, engine, postgresql, sqlite

__all__ = ["empty_store", "engine", "postgresql", "sqlite"]
