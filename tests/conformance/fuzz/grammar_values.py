"""State of plain kinds: numbers, lists, dicts, sets, instances, functions.

See vocabulary.py for what patterns are. Invariant: a change of a container leaves one of the same kind, or a value
that every read allows.
"""

from conformance.fuzz.vocabulary import Kind

SUPPORT = {
    "Base": '''
class Base:
    n = 2

    def go(self, r):
        return r + self.n


class Node(Base):
    def __init__(self, n):
        self.n = n
        self.items = [1, 2]
        self.t = vector()


class Other(Base):
    n = 7

    def go(self, r):
        return r * self.n

    def deep(self, r):
        own, n = self.__dict__, self.n
        print("deep")
        n = n + self.n
        return super().go(r) + n + len(own)
''',
    "Items": '''
class Items(list):
    extra = 1

    def __len__(self):
        return super().__len__() + self.extra
''',
    "Keyed": '''
class Keyed(dict):
    def __missing__(self, key):
        return 11
''',
    "Adder": '''
class Adder:
    def __init__(self, by):
        self.by = by

    def __call__(self, r):
        return r + self.by
''',
}

KINDS = {
    "number": Kind(
        initial=[
            "0",
            "1",
            "2",
            "3",
            "-1",
            "2.5",
            "1.0",
            "0.0",
            "-0.0",
            "True",
            "False",
            "10**12",
            "None",
            "'ab'",
            "float('nan')",
            "3 + 0j",
            "'abc'",
            "b'x'",
            "2**70",
            "1e-3",
        ],
        reads=[
            ["r = r * {s} if {s} is not None else r - 1"],
            ["if isinstance({s}, (int, float)) and {s} > {k}:", "    r = r * 2", "else:", "    r = r - 1"],
            ["r = r + len(str({s}))"],
            ["r = r + ({s} == {k})"],
            ["r = r + (10 if {s} else 20)"],
            ["r = r * (1 if type({s}) is int else 3)"],
            ["try:", "    r = r[: {s}] * 2", "except TypeError:", "    r = r * 5"],
            ["for i in range({s} if type({s}) is int and {s} < 9 else 2):", "    r = r + i"],
            ["r = r + {s} if isinstance({s}, int) and abs({s}) < 99 else r"],
            ["match {s}:", "    case int() | float():", "        r = r + 1", "    case str(text):", "        r = r - len(text)", "    case _:", "        r = r * 2"],
            ["if {s}:", "    q = 2", "print('p')", "try:", "    r = r * q", "except NameError:", "    r = r + 1"],
            ["r = r + (1 if {s} is {o} else 2)"],
            ["r = r + hash({s} if isinstance({s}, int) else 3) % 7"],
            ["r = r + len(f\"{{{s}!r:>4}}\")"],
            ["try:", "    r = r * int({s})", "except (TypeError, ValueError, OverflowError) as error:", "    r = r + len(str(error))"],
            ["r = r.reshape(-1)[: 1 + bool({s})].sum() + r"],
            ["r = r.new_full((2,), 1.5).repeat(1 + ({s} == 1)).sum() + r"],
        ],
        writes=[
            ["{s} = {k}"],
            ["{s} = ({s} or 0) * 2", "r = r + 1"],
            ["{s} += 1"],
            ["{s}, {o} = {o}, {s}"],
            ["del {s}"],
            ["try:", "    del {s}", "except NameError:", "    r = r + 1"],
        ],
        changes=[
            "{s} = {v}",
            "{s} = type({s})({s}) if {s} is not None else 1",
            "{s} = -{s} if isinstance({s}, (int, float)) else 0",
            "del {s}",
            "{s} = {o}",
        ],
    ),
    "list": Kind(
        initial=[
            "[1, 2, 3]",
            "[]",
            "[1]",
            "[2.5, 1]",
            "[vector(), 2]",
            "(1, 2)",
            "collections.deque([1, 2])",
            "[[1, 2], [3]]",
            "[None, 1, 'a']",
            "(1, (2, 3))",
            "collections.deque([1, 2, 3], maxlen=3)",
            "range(3)",
            "Items([1, 2])",
            "collections.namedtuple('Pair', 'a b')(1, 2)",
        ],
        reads=[
            ["for v in {s}:", "    r = r + v"],
            ["r = r * len({s})"],
            ["r = r + {s}[0] if {s} else r - 5"],
            ["try:", "    r = r + {s}[{k}]", "except IndexError:", "    r = r * 7"],
            ["r = r * (2 if isinstance({s}, list) else 5)"],
            ["r = r + sum(v for v in {s} if isinstance(v, int))"],
            ["r = torch.stack([r * v for v in {s}] or [r]).sum(0)"],
            ["a, *b = [*{s}, 4]", "r = r * a - len(b)"],
            ["r = r + ({k} in [v for v in {s} if type(v) is int])"],
            ["r = r + len({s}[1:])"],
            ["r = r * (2 if {s} == {o} else 3)"],
            ["r = r + sum(len(str(v)) for v in reversed({s}))"],
            ["for i, v in enumerate({s}):", "    r = r + i"],
            ["r = r + [*zip({s}, range(4))].__len__()"],
            ["r = r + {s}.index({k}) if {k} in [v for v in {s} if type(v) is int] else r"],
            ["r = r + max([v for v in {s} if type(v) is int], default=4)"],
            ["first, *_ = list({s}) or [0]", "r = r + (first if isinstance(first, int) else 2)"],
        ],
        writes=[
            ["if isinstance({s}, list):", "    {s}.append({k})"],
            ["if isinstance({s}, list) and {s}:", "    {s}.pop()"],
            ["if isinstance({s}, list):", "    {s}[:] = {s}[::-1]"],
            ["if isinstance({s}, list):", "    {s}.insert(0, r.sum())"],
            ["if isinstance({s}, list) and {s}:", "    del {s}[0]"],
            ["if isinstance({s}, list):", "    {s}.extend([{k}, 1])"],
            ["if isinstance({s}, list):", "    {s} += [{k}]"],
            ["if isinstance({s}, list):", "    {s}.sort(key=lambda v: len(str(v)))"],
            ["if isinstance({s}, collections.deque):", "    {s}.append({k})", "    {s}.rotate(1)"],
            ["if isinstance({s}, list) and {k} in [v for v in {s} if type(v) is int]:", "    {s}.remove({k})"],
            ["if isinstance({s}, list):", "    last = {s}.pop() if {s} else 1", "    {s}.insert(0, last)"],
            ["if isinstance({s}, list):", "    {s}.clear()", "    {s}.append({k})"],
            ["if isinstance({s}, list):", "    {s}.append({k})", "r = r + 1", "if isinstance({s}, list):", "    {s}.append(1)"],
            ["if isinstance({s}, list) and {s}:", "    operator.setitem({s}, 0, {k})", "    operator.delitem({s}, 0)"],
        ],
        changes=[
            "{s} = list({s}) + [{k}]",
            "{s} = list({s})\n{s}.reverse()",
            "{s}.append({k}) if isinstance({s}, list) else None",
            "{s}.pop() if isinstance({s}, list) and {s} else None",
            "{s}.__setitem__(0, {k} + 0.5) if isinstance({s}, list) and {s} else None",
            "{s}.insert(0, vector()) if isinstance({s}, list) else None",
            "{s}.clear() if isinstance({s}, list) else None",
            "{s} = tuple({s})",
            "del {s}[0]",
            "del {s}[:]",
            "{s}.extend([1, {k}])",
            "{s}.__delitem__(-1)",
            "{s}.append({s}.pop(0))",
            "{s}[0] = [{k}]",
            "{s} = {o}",
            "{s}.append({s}[0])",
            "{s}.rotate(1)",
        ],
    ),
    "dict": Kind(
        initial=[
            "{'a': 1, 'b': 2}",
            "{}",
            "{'b': 2, 'a': 1}",
            "{'a': vector()}",
            "{1: 1, 'a': 3}",
            "collections.OrderedDict(a=1, b=2)",
            "collections.defaultdict(int, a=1)",
            "{'a': {'a': 1}, 'b': 2}",
            "{None: 1, 'a': 2, (1, 2): 3}",
            "types.MappingProxyType({'a': 1})",
            "Keyed(a=1)",
            "collections.Counter('aab')",
            "{i: i for i in range(30)}",
        ],
        reads=[
            ["for k, v in {s}.items():", "    r = r * 2 + v * len(str(k))"],
            ["r = r + {s}.get('a', 9)"],
            ["r = r * 3 if 'b' in {s} else r"],
            ["try:", "    r = r * {s}['a']", "except KeyError as error:", "    r = r + len(str(error))"],
            ["r = r + len({s})"],
            ["r = r * (2 if list({s})[:1] == ['a'] else 3)"],
            ["r = r - sum(len(str(k)) for k in {s})"],
            ["r = r + (5 if {s} else 6)"],
            ["r = r * (2 if {s} == {o} else 3)"],
            ["r = r + len({s}.keys() & {{'a', 'b'}})"],
            ["for v in {s}.values():", "    r = r + (v if isinstance(v, int) else 1)"],
            ["r = r + {s}[{k}] if {k} in {s} else r"],
            ["r = r + len({{**{s}, 'q': 1}})"],
            ["match {s}:", "    case {{'a': int(a)}}:", "        r = r + a", "    case {{'b': _, **rest}}:", "        r = r - len(rest)"],
            ["r = r + next(iter({s}.items()), (0, 3))[0].__class__.__name__.__len__()"],
            ["r = r + len(str(sorted(map(str, {s}))))"],
        ],
        writes=[
            ["{s}['w'] = {k}"],
            ["{s}['a'] = {s}.get('a', 0) + 1"],
            ["{s}.pop('b', None)"],
            ["{s}['t'] = r.sum()"],
            ["{s}.setdefault('z', len({s}))"],
            ["{s}.pop('a', None)", "{s}['a'] = {k}"],
            ["if 'a' in {s}:", "    del {s}['a']"],
            ["value = {s}.pop('b', 5)", "{s}['b'] = value"],
            ["{s}.update(u={k}, a=2)"],
            ["{s}.clear()"],
            ["if isinstance({s}, dict) and {s}:", "    {s}.popitem()"],
            ["{s} |= {{'p': {k}}}"],
            ["{s}['n'] = [{k}]", "{s}['n'].append(1)", "r = r + len({s}['n'])"],
            ["del {s}['b']"],
            ["if isinstance({s}, collections.OrderedDict):", "    {s}.move_to_end('a', last={k} > 1)"],
            ["operator.setitem({s}, 'a', {k})"],
            ["{s}['d'] = {k}", "del {s}['d']"],
        ],
        changes=[
            "{s}['a'] = {k}",
            "{s}['new{k}'] = {k}",
            "{s}.pop('a', None)",
            "{s}['b'] = {s}.pop('b', 1)",
            "{s}['a'] = vector(3, 2.0)",
            "{s}.clear()",
            "{s} = dict(reversed(list({s}.items())))",
            "del {s}['a']",
            "{s}.pop('b')",
            "{s}['a'] = {s}.pop('a')",
            "{s}.popitem()",
            "{s}.update(a=vector(), z={k})",
            "{s}['w'] = {k}\ndel {s}['w']",
            "{s}[{k}] = 'x'",
            "{s}['a'] = True",
            "{s} = {o}",
            "{s}['self'] = {s}",
            "{s} = Keyed({s})",
        ],
    ),
    "set": Kind(
        initial=[
            "{'a', 'b'}",
            "set()",
            "{'a'}",
            "frozenset(['a'])",
            "{1, 2, 3}",
            "{1, 'a'}",
            "frozenset([1, 2])",
        ],
        reads=[
            ["r = r * len({s})"],
            ["r = r + ('a' in {s}) - 2 * ('c' in {s})"],
            ["r = r * 2 if {s} == {{'a'}} else r + 1"],
            ["r = r + len('-'.join(sorted({s}, key=str)))"],
            ["r = r + len({s} | {{'a', 'z'}})"],
            ["r = r * (2 if {s} <= {{'a', 'b'}} else 3)"],
            ["r = r + sum(len(str(v)) for v in {s})"],
            ["r = r + ({k} in {s})"],
            ["r = r * (2 if {s} == {o} else 3)"],
            ["r = r + len({s} - {{1}}) + len({s} & {{1, 2}})"],
        ],
        writes=[
            ["if isinstance({s}, set):", "    {s}.add('w')"],
            ["if isinstance({s}, set):", "    {s}.discard('a')"],
            ["if isinstance({s}, set):", "    {s}.update(('p', {k}))"],
            ["if isinstance({s}, set):", "    {s}.discard({k})", "    {s}.add({k})"],
            ["if isinstance({s}, set) and 'a' in {s}:", "    {s}.remove('a')"],
            ["if isinstance({s}, set):", "    {s} -= {{'b'}}"],
            ["if isinstance({s}, set):", "    {s}.clear()"],
        ],
        changes=[
            "{s}.add('c') if isinstance({s}, set) else None",
            "{s}.discard('a') if isinstance({s}, set) else None",
            "{s} = set({s}) if isinstance({s}, (set, frozenset)) else {s}",
            "{s}.remove('a')",
            "{s}.clear()",
            "{s}.update([{k}, 'a'])",
            "{s} ^= {{'a'}}",
            "{s}.add('a')\n{s}.remove('a')",
            "{s} = frozenset({s})",
            "{s} = set({s})",
        ],
    ),
    "object": Kind(
        initial=[
            "Node(2)",
            "Node(3)",
            "Node(vector())",
            "Other()",
        ],
        reads=[
            ["r = r * {s}.n"],
            ["r = {s}.go(r)"],
            ["r = {s}.deep(r) if isinstance({s}, Other) else r"],
            ["r = r + (4 if isinstance({s}, Node) else 8)"],
            ["r = r * 2 if hasattr({s}, 'm') else r - 2"],
            ["r = r + getattr({s}, 'items', [7])[-1]"],
            ["r = r + getattr({s}, 't', 1)"],
            ["r = r * len(vars({s}))"],
            ["for v in getattr({s}, 'items', ()):", "    r = r + v"],
            ["try:", "    r = r + {s}.m", "except AttributeError as error:", "    r = r + len(error.name)"],
            ["r = r + ({s} is {o})"],
            ["r = r + ({s} in [{o}, 1]) + [1, {o}].count({s})"],
            ["r = r + (1 if {s} else 2) + any([{s}])"],
            ["r = r * (2 if type({s}) is type({o}) else 3)"],
            ["r = r + len(dir({s})) * 0"],
            ["{o}.n, old = {k}, {s}.n", "r = r * old"],
            ["r = r + len(getattr(type({s}), 'seen', 'none').__class__.__name__)"],
        ],
        writes=[
            ["old = {s}.n", "{s}.n = old + 1", "r = r * old"],
            ["{s}.m = r.sum()"],
            ["{s}.items = [*getattr({s}, 'items', ()), {k}]"],
            ["type({s}).seen = {k}"],
            ["del {s}.n"],
            ["try:", "    del {s}.m", "except AttributeError:", "    {s}.m = {k}"],
            ["{s}.n = {k}", "del {s}.n"],
            ["setattr({s}, 'm', {k})", "delattr({s}, 'm')"],
            ["vars({s})['n'] = {k}"],
            ["{s}.__dict__.update(m={k})"],
            ["{s}.__dict__.pop('n', None)"],
            ["{s}.__class__ = Other"],
            ["{s}.t = r * 2", "r = r + {s}.t"],
            ["setattr({s}, 'x' + str({k}), r.sum())"],
            ["if hasattr({s}, 'items'):", "    {s}.items.append({k})", "    {o}.n = len(getattr({o}, 'items', ()))"],
        ],
        changes=[
            "{s}.n = {k}",
            "{s}.n = {v}",
            "{s}.m = {k}",
            "vars({s}).pop('n', None)",
            "vars({s}).pop('m', None)",
            "vars({s}).clear()",
            "Base.n = {k} + 10",
            "Other.n = {k} + 20",
            "{s}.__class__ = Other",
            "{s}.__class__ = Node",
            "{s}.items = [{k}, 5]",
            "getattr({s}, 'items', []).append({k})",
            "{s}.go = lambda r: r * 50",
            "{s}.t = vector(3, {k}.0).double()",
            "del {s}.n",
            "del {s}.items",
            "{s}.n = 1\ndel {s}.n",
            "{s}.__dict__ = {{'n': {k}}}",
            "{s}.items = {o}.items",
            "{s} = {o}",
            "Node.n = {k}\ndel Node.n",
            "Base.m = {k}\ndel Base.m",
            "Node.m = {k}",
            "Node.__eq__ = lambda self, other: True",
            "Node.__len__ = lambda self: {k}",
            "del Node.__eq__",
            "Other.__bool__ = lambda self: False",
            "Node.go = lambda self, r: r - self.n",
            "del Node.go",
            "Other.go = Base.go",
        ],
    ),
    "function": Kind(
        initial=[
            "(lambda r: r + 1)",
            "(lambda r, by=2: r * by)",
            "Node(4).go",
            "torch.neg",
            "Other().go",
            "torch.nn.functional.logsigmoid",
            "functools.partial(torch.add, alpha=2, other=1)",
            "Adder(2)",
            "operator.neg",
            "staticmethod(lambda r: r * 2)",
            "torch.compiler.disable(lambda r: r - 2)",
        ],
        reads=[
            ["r = {s}(r)"],
            ["r = {s}({s}(r))"],
            ["r = r + callable({s})"],
            ["r = [f(r) for f in ({s}, torch.sin)][0]"],
            ["r = {s}(r) if {s} is {o} else {s}(r) + 1"],
            ["try:", "    r = r + len({s}.__name__)", "except AttributeError:", "    r = r - 1"],
            ["r = functools.reduce(lambda a, f: f(a), [{s}, {o}], r)"],
            ["r = r + len(getattr({s}, '__defaults__', None) or ())"],
        ],
        writes=[
            ["r = {s}(r) + 1"],
            ["{s}.calls = {k}"],
        ],
        changes=[
            "{s} = {v}",
            "{s} = lambda r, by={k}: r - by",
            "{s} = Node({k}).go",
            "{s}.__defaults__ = ({k},)",
            "{s}.__code__ = (lambda r: r * {k}).__code__",
            "{s}.calls = {k}",
            "{s} = {o}",
            "{s} = torch.cos",
            "{s} = functools.partial({s})",
        ],
    ),
}
