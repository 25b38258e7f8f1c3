"""torch's own samples of operators, modules and optimizers, run eagerly and compiled, and compared."""
