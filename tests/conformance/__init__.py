"""The truth machine: programs, ways of running them, and a comparison with plain Python.

Everything here drives a system under test through its public API only, so that the same programs run on plain Python,
on torch.compile and on framefuse. Start with `program.py` (what a program is) and `judge.py` (what is compared).
"""
