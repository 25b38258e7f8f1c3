"""One thread for every test here: a forked child waits for ever for the threads of its parent's OpenMP pool."""

from zoo.test_slice import one_thread  # noqa: F401  (a fixture that every test uses)
