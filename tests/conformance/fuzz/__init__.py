"""The guard-soundness fuzzer: random programs over every source kind, state changed at random between calls.

`grammar` makes a program from a seed, with the words of the modules grammar_*; `search` runs, shrinks and writes down
what fails; `coverage` says which kinds of guards, effects, breaks, rules and passes were met. Words whose bug is open
are in `open_bugs`. Start with grammar.Draft.
"""
