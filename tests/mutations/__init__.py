"""Planted bugs: each must fail the tests that name themselves its killers."""
