"""Warnings in captured code: the entry says them behind its graph, as the program would have.

Invariant: it is called as an effect alone; C++ (symbolic/entry/deferred_warnings.h) knows the place of the warning.
"""

import sys
import warnings


def say(text, category, path, line, module):
    """What warnings.warn does where the program stands at `line`: the module's registry says what was said there."""
    names = vars(sys.modules[module]) if module in sys.modules else {}
    warnings.warn_explicit(text, category, path, line, module, names.setdefault("__warningregistry__", {}))
