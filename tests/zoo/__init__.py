"""The model zoo: every model class of some public packages, tiny, run eagerly and compiled, and compared."""
