"""The vocabulary of the fuzzer: kinds of state, places that hold it, statements that read or write it, changes to it.

Each kind has one row in each table. Patterns use {s} for the state's reference, {v} for a new value, {k} for a small
number. Invariant: every read is legal Python whatever the state became; where Python raises, both runs raise.
"""

PLACES = ("global", "cell", "default", "keyword", "argument", "attribute", "item", "key", "argument", "cell")

INITIAL = {
    "number": ["0", "1", "2", "3", "-1", "2.5", "1.0", "0.0", "-0.0", "True", "False", "10**12", "None", "'ab'"],
    "tensor": [
        "vector()",
        "vector(3, 5.0)",
        "vector(4)",
        "vector(1)",
        "matrix(2, 3)",
        "matrix(3, 2).t()",
        "vector(6)[::2]",
        "vector().double()",
        "torch.arange(3)",
        "leaf()",
        "torch.tensor(2.0)",
    ],
    "list": ["[1, 2, 3]", "[]", "[1]", "[2.5, 1]", "[vector(), 2]", "(1, 2)", "collections.deque([1, 2])"],
    "dict": ["{'a': 1, 'b': 2}", "{}", "{'b': 2, 'a': 1}", "{'a': vector()}", "{1: 1, 'a': 3}"],
    "set": ["{'a', 'b'}", "set()", "{'a'}", "frozenset(['a'])"],
    "object": ["Node(2)", "Node(3)", "Node(vector())", "Other()"],
    "function": ["(lambda r: r + 1)", "(lambda r, by=2: r * by)", "Node(4).go", "torch.neg", "Other().go"],
}

READS = {
    "number": [
        ["r = r * {s} if {s} is not None else r - 1"],
        ["if isinstance({s}, (int, float)) and {s} > {k}:", "    r = r * 2", "else:", "    r = r - 1"],
        ["r = r + len(str({s}))"],
        ["r = r + ({s} == {k})"],
        ["r = r + (10 if {s} else 20)"],
        ["r = r * (1 if type({s}) is int else 3)"],
        ["try:", "    r = r[: {s}] * 2", "except TypeError:", "    r = r * 5"],
        ["for i in range({s} if type({s}) is int and {s} < 9 else 2):", "    r = r + i"],
    ],
    "tensor": [
        ["r = r.sum() + {s}"],
        ["r = r * {s}.sum()"],
        ["r = r + {s}.shape[0] if {s}.dim() else r * 3"],
        ["if {s}.dtype == torch.float32 and not {s}.requires_grad:", "    r = r + 1", "else:", "    r = r * 3"],
        ["r = r + len({s}.stride()) * {s}.is_contiguous()"],
        ["r = r * (2 if {s} is r else 1)"],
        ["r = r + ({s} * 2).view(-1)[0]"],
    ],
    "list": [
        ["for v in {s}:", "    r = r + v"],
        ["r = r * len({s})"],
        ["r = r + {s}[0] if {s} else r - 5"],
        ["try:", "    r = r + {s}[{k}]", "except IndexError:", "    r = r * 7"],
        ["r = r * (2 if isinstance({s}, list) else 5)"],
        ["r = r + sum(v for v in {s} if isinstance(v, int))"],
        ["r = torch.stack([r * v for v in {s}] or [r]).sum(0)"],
        ["a, *b = [*{s}, 4]", "r = r * a - len(b)"],
        ["r = r + ({k} in [v for v in {s} if type(v) is int])"],
    ],
    "dict": [
        ["for k, v in {s}.items():", "    r = r * 2 + v * len(str(k))"],
        ["r = r + {s}.get('a', 9)"],
        ["r = r * 3 if 'b' in {s} else r"],
        ["try:", "    r = r * {s}['a']", "except KeyError as error:", "    r = r + len(str(error))"],
        ["r = r + len({s})"],
        ["r = r * (2 if list({s})[:1] == ['a'] else 3)"],
        ["r = r - sum(len(str(k)) for k in {s})"],
        ["r = r + (5 if {s} else 6)"],
    ],
    "set": [
        ["r = r * len({s})"],
        ["r = r + ('a' in {s}) - 2 * ('c' in {s})"],
        ["r = r * 2 if {s} == {{'a'}} else r + 1"],
        ["r = r + len('-'.join(sorted({s})))"],
    ],
    "object": [
        ["r = r * {s}.n"],
        ["r = {s}.go(r)"],
        ["r = r + (4 if isinstance({s}, Node) else 8)"],
        ["r = r * 2 if hasattr({s}, 'm') else r - 2"],
        ["r = r + getattr({s}, 'items', [7])[-1]"],
        ["r = r + getattr({s}, 't', 1)"],
        ["r = r * len(vars({s}))"],
        ["for v in getattr({s}, 'items', ()):", "    r = r + v"],
    ],
    "function": [
        ["r = {s}(r)"],
        ["r = {s}({s}(r))"],
        ["r = r + callable({s})"],
        ["r = [f(r) for f in ({s}, torch.sin)][0]"],
    ],
}

WRITES = {
    "number": [["{s} = {k}"], ["{s} = ({s} or 0) * 2", "r = r + 1"]],
    "tensor": [["{s}.detach().add_(1)"], ["with torch.no_grad():", "    {s}.mul_(2)"], ["{s}.note = {k}"]],
    "list": [
        ["if isinstance({s}, list):", "    {s}.append({k})"],
        ["if isinstance({s}, list) and {s}:", "    {s}.pop()"],
        ["if isinstance({s}, list):", "    {s}[:] = {s}[::-1]"],
        ["if isinstance({s}, list):", "    {s}.insert(0, r.sum())"],
    ],
    "dict": [
        ["{s}['w'] = {k}"],
        ["{s}['a'] = {s}.get('a', 0) + 1"],
        ["{s}.pop('b', None)"],
        ["{s}['t'] = r.sum()"],
        ["{s}.setdefault('z', len({s}))"],
    ],
    "set": [["if isinstance({s}, set):", "    {s}.add('w')"], ["if isinstance({s}, set):", "    {s}.discard('a')"]],
    "object": [
        ["old = {s}.n", "{s}.n = old + 1", "r = r * old"],
        ["{s}.m = r.sum()"],
        ["{s}.items = [*getattr({s}, 'items', ()), {k}]"],
        ["type({s}).seen = {k}"],
    ],
    "function": [["r = {s}(r) + 1"]],
}

CHANGES = {
    "number": ["{s} = {v}"],
    "tensor": [
        "with torch.no_grad():\n    {s}.mul_(2)",
        "{s} = {v}",
        "{s} = {s}.detach().clone().requires_grad_({s}.is_floating_point())",
        "{s} = {s}.double()",
        "{s} = {s}.t() if {s}.dim() == 2 else {s}.repeat(2)[::2]",
        "{s}.extra = {k}",
    ],
    "list": [
        "{s} = list({s}) + [{k}]",
        "{s} = list({s})\n{s}.reverse()",
        "{s}.append({k}) if isinstance({s}, list) else None",
        "{s}.pop() if isinstance({s}, list) and {s} else None",
        "{s}.__setitem__(0, {k} + 0.5) if isinstance({s}, list) and {s} else None",
        "{s}.insert(0, vector()) if isinstance({s}, list) else None",
        "{s}.clear() if isinstance({s}, list) else None",
        "{s} = tuple({s})",
    ],
    "dict": [
        "{s}['a'] = {k}",
        "{s}['new{k}'] = {k}",
        "{s}.pop('a', None)",
        "{s}['b'] = {s}.pop('b', 1)",
        "{s}['a'] = vector(3, 2.0)",
        "{s}.clear()",
        "{s} = dict(reversed(list({s}.items())))",
    ],
    "set": [
        "{s}.add('c') if isinstance({s}, set) else None",
        "{s}.discard('a') if isinstance({s}, set) else None",
        # Not of tensors: their order in a set is another one in each run.
        "{s} = set({s}) if isinstance({s}, (set, frozenset)) else {s}",
    ],
    "object": [
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
    ],
    "function": ["{s} = {v}", "{s} = lambda r, by={k}: r - by", "{s} = Node({k}).go"],
}


def place_reference(place: str, name: str) -> str:
    """How code refers to state that lives there."""
    if place == "attribute":
        return f"holder.{name}"
    if place == "item":
        return f"row[{name[1:]}]"
    if place == "key":
        return f"table['{name}']"
    return name
