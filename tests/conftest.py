"""Settings for all tests. They find the code through pyproject.toml, and need no installation."""

from hypothesis import settings

# The same examples in every run, and no clock: a slow machine is no fault of the code.
settings.register_profile("tokenwise", deadline=None, derandomize=True, database=None)
settings.load_profile("tokenwise")
