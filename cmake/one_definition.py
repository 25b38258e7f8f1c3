"""Which names of classes and enumerations stand in two files of one namespace. The linker takes one of the two for both, without a word:
what the compiler has not built in line destroys objects of the other class.

It reads braces and no grammar. Invariant: names in unnamed namespaces, in classes and in functions are nobody else's.
"""

import collections
import re

import function_lengths

_NAMESPACE = re.compile(r"\s*(?:inline\s+)?namespace\s*([\w:]*)\s*\{")
_DEFINITION = re.compile(r"^(?:template\s*<.*>\s*)?(?:class|struct|enum(?:\s+class)?)\s+(?:\[\[\w+\]\]\s+)?(\w+)(?!\w|::)[^;()]*\{")


def defined(text):
    """(line, `namespace::Name`) of each definition that other files can see."""
    depth, open_namespaces = 0, []  # (depth before it, name)
    for number, line in enumerate(function_lengths.blanked(text).splitlines(), 1):
        if found := _NAMESPACE.match(line):
            open_namespaces.append((depth, found[1]))
        elif (found := _DEFINITION.match(line)) and len(open_namespaces) == depth and all(name for _, name in open_namespaces):
            yield number, "::".join([*(name for _, name in open_namespaces), found[1]])
        depth += line.count("{") - line.count("}")
        while open_namespaces and open_namespaces[-1][0] >= depth:
            open_namespaces.pop()


def violations(texts):
    """A sentence for each name that several of the files, a dict from path to text, define."""
    places = collections.defaultdict(dict)
    for path, text in texts.items():
        for number, name in defined(text):
            places[name].setdefault(path, number)
    for name, files in sorted(places.items()):
        if len(files) > 1:
            yield f"{name} is defined in {' and in '.join(f'{path}:{number}' for path, number in files.items())}: the linker takes one for both"
