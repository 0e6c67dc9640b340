from cli.test_experiments import data
from web.test_experiments_api import api

__all__ = ["api", "data"]
