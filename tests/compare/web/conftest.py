from web.conftest import engine, operations_made_once, shop, work_done_here

__all__ = ["engine", "operations_made_once", "shop", "work_done_here"]
