"""Operations on suites, evals and their experiments under ``/api``, and on jobs under ``/api/v1``."""
