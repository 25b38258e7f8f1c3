"""The guard-soundness fuzzer: random programs over every source kind, state changed at random between calls.

`grammar` makes a program from a seed, `search` runs, shrinks and writes down what fails. Start with grammar.Draft.
"""
