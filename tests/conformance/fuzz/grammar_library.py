"""Library idioms: functools, dataclasses, enum, contextlib, itertools, text that is parsed as einops does, numpy.

State of these kinds, and statements that stand alone. Caches and counters of functions are made anew for each run, with
the definitions that hold them.
"""

from conformance.fuzz.vocabulary import Kind, Topic

SUPPORT = {
    "Settings": '''
@dataclasses.dataclass
class Settings:
    n: int = 2
    names: list = dataclasses.field(default_factory=list)
    scale: float = 1.5

    def __post_init__(self):
        self.total = self.n * 2
''',
    "Frozen": '''
@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    n: int = 2
    label: str = "x"
''',
    "Mode": '''
class Mode(enum.Enum):
    FIRST = 1
    SECOND = "two"

    @property
    def size(self):
        return len(self.name)
''',
    "Bits": '''
class Bits(enum.IntFlag):
    LOW = 1
    HIGH = 4
''',
    "Pair": '''
class Pair(typing.NamedTuple):
    first: int
    second: float = 0.5
''',
    "cached": '''
@functools.lru_cache(maxsize=2)
def cached(n):
    return n * 2 + 1
''',
    "kind_of": '''
@functools.singledispatch
def kind_of(value):
    return 1


@kind_of.register
def of_int(value: int):
    return 2


@kind_of.register(str)
def of_text(value):
    return len(value)
''',
    "lent": '''
@contextlib.contextmanager
def lent(items):
    items.append(1)
    try:
        yield len(items)
    finally:
        items.pop()
''',
    "arrange": '''
def arrange(t, pattern, **sizes):
    """`a b -> b (a n)`, as einops reads it."""
    left, right = (side.strip() for side in pattern.split("->"))
    names = left.split()
    groups = [g[1:-1].split() if g.startswith("(") else [g] for g in re.findall(r"\\([^)]*\\)|\\S+", right)]
    known = {**dict(zip(names, t.shape)), **sizes}
    if len(names) != t.dim():
        raise ValueError(f"{pattern!r} has {len(names)} axes, the tensor {t.dim()}")
    order = [names.index(n) for g in groups for n in g if n in names]
    t = t.permute(order)
    return t.reshape([math.prod(known[n] for n in g if n in names) for g in groups])
''',
    "Lazy": '''
class Lazy:
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def doubled(self):
        return self.n * 2
''',
    "wrapped": '''
def wrapped(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs) * 2

    return inner
''',
}

_RECORD = Kind(
    initial=["Settings()", "Settings(3, ['a'])", "Frozen()", "Frozen(3, 'y')", "Pair(1)", "Pair(2, 1.5)", "types.SimpleNamespace(n=2)", "Lazy(3)"],
    reads=[
        ["r = r * getattr({s}, 'n', 2)"],
        ["r = r + len(dataclasses.fields({s}))"],
        ["r = r + len(dataclasses.asdict({s}))"],
        ["made = dataclasses.replace({s}, n={k})", "r = r + made.n"],
        ["r = r * (2 if {s} == {o} else 3)"],
        ["r = r + len(repr({s}))"],
        ["match {s}:", "    case Settings(n=int(n)):", "        r = r + n", "    case Pair(first, second):", "        r = r + first * second", "    case _:", "        r = r - 1"],
        ["r = r + dataclasses.is_dataclass({s})"],
        ["r = r + getattr({s}, 'doubled', 1)"],
        ["r = r + sum(len(str(v)) for v in vars({s}).values())"],
        ["n, *_ = {s}", "r = r + n"],
        ["r = r + (hash({s}) == hash({o})) if isinstance({s}, (Frozen, Pair)) else r"],
        ["r = r + ({s} < {o})"],
        ["r = r + {s}._replace(first={k}).first + len({s}._asdict())"],
        ["r = r + operator.attrgetter('n')({s})"],
    ],
    writes=[["{s}.n = {k}"], ["{s}.names.append('b')", "r = r + len({s}.names)"], ["{s}.total += {k}"], ["del {s}.n"], ["r = r + {s}.doubled", "del {s}.doubled"], ["object.__setattr__({s}, 'n', {k})"]],
    changes=["{s}.n = {k}", "{s} = {v}", "{s}.names = ['q'] * {k}", "del {s}.n", "Settings.n = {k}", "Settings.scale = 3.5", "{s} = dataclasses.replace({s}, n={k})", "{s}.doubled = {k}", "del {s}.doubled", "{s} = copy.copy({s})", "{s} = {o}", "{s}.extra = 1", "Lazy.n = {k}", "Pair.first = property(lambda self: 7)"],
    weight=8,
)

_CHOICE = Kind(
    initial=["Mode.FIRST", "Mode.SECOND", "Bits.LOW", "Bits.LOW | Bits.HIGH", "'a b -> b a'", "'a b -> (a b)'", "np.float32(2)", "np.int64(3)", "np.bool_(True)", "re.compile('a+')", "torch.float64", "torch.device('cpu')", "torch.Size([2, 3])", "int", "Settings"],
    reads=[
        ["r = r + ({s} is Mode.FIRST) + 2 * ({s} == Bits.LOW)"],
        ["r = r + {s}.size"],
        ["match {s}:", "    case Mode.FIRST:", "        r = r + 1", "    case Mode.SECOND | Bits.LOW:", "        r = r * 2", "    case _:", "        r = r - 1"],
        ["r = r + len({{Mode.FIRST: 'a', Mode.SECOND: 'bc'}}.get({s}, 'def'))"],
        ["r = r + Mode({s}).value"],
        ["r = r + bool({s} & Bits.HIGH)"],
        ["r = r + arrange(matrix(2, 3), {s}).sum()", "r = r + arrange(matrix(2, 3), {s}).shape[0]"],
        ["r = r + float({s})"],
        ["r = r * np.sqrt({s})"],
        ["r = r + int(np.add({s}, 1))"],
        ["r = r + len({s}.findall('aabaa')[0])"],
        ["r = r.to({s}).sum().to(torch.float32)"],
        ["r = r + torch.zeros({s}).sum() if isinstance({s}, torch.Size) else r"],
        ["r = r + len(str({s}))"],
        ["r = r + isinstance({s}, (int, str)) + 2 * isinstance({s}, collections.abc.Hashable)"],
        ["r = r + ({s} in (Mode.FIRST, np.float32(2)))"],
        ["r = r + kind_of({s})"],
        ["r = r + len([m for m in Mode]) + len(Mode.__members__)"],
        ["r = r + len({s}()) if {s} is int else r"],
        ["r = r + cached({s})"],
        ["r = r + math.prod({s}) if isinstance({s}, tuple) else r"],
        ["r = r + np.array([1.0, 2.0]).sum() * ({s} == 2)"],
    ],
    writes=[["{s} = {s}", "r = r + 1"], ["Settings.kept = {s}"], ["{s}.note = 1"]],
    changes=["{s} = {v}", "{s} = {o}", "Mode.FIRST.extra = {k}", "Settings.n = {k}", "{s} = str({s})", "{s} = np.float32({k})", "{s} = np.float64({k})", "cached.cache_clear()"],
    weight=8,
)

KINDS = {"record": _RECORD, "choice": _CHOICE}

TOPICS = {
    "library": Topic(
        [
            ["r = functools.reduce(operator.add, [r, 1, {k}])"],
            ["r = functools.partial(torch.clamp, min=-2)(r)"],
            ["r = r + cached({k}) + cached({k})"],
            ["r = r + kind_of({k}) + kind_of('abc') + kind_of(None)"],
            ["r = wrapped(torch.sin)(r)"],
            ["with contextlib.suppress(KeyError):", "    r = r + {{}}[{k}]", "    r = r * 5"],
            ["with contextlib.nullcontext({k}) as n:", "    r = r + n"],
            ["held = []", "with lent(held) as n:", "    r = r + n", "r = r + len(held)"],
            ["held = []", "with lent(held) as n:", "    print(n)", "    r = r + n"],
            ["with contextlib.ExitStack() as stack:", "    stack.callback(lambda: None)", "    r = r + 1"],
            ["with contextlib.redirect_stdout(io.StringIO()):", "    r = r + 1"],
            ["for a, b in itertools.product([1, {k}], [2]):", "    r = r + a * b"],
            ["r = r + sum(itertools.accumulate([1, {k}])) + len([*itertools.chain([1], (2,))])"],
            ["for key, group in itertools.groupby([1, 1, {k}]):", "    r = r + key * len(list(group))"],
            ["for a, b in itertools.zip_longest([1, 2], [{k}], fillvalue=4):", "    r = r + a * b"],
            ["count = itertools.count({k})", "r = r + next(count) + next(count)"],
            ["r = r + len([*map(lambda v: v * 2, filter(None, [0, 1, {k}]))])"],
            ["r = r + sorted([3, 1, {k}], key=lambda v: -v)[0] + min([1, {k}]) + any([0, {k}])"],
            ["a, (b, *c) = {k}, (1, 2, 3)", "r = r * a + b + len(c)"],
            ["r = r + len('{{:>{{w}}}}'.format({k}, w=4)) + len(f'{{{k}:.2f}}') + len('%d' % {k})"],
            ["r = r + int('12'.zfill(4)[1:]) + 'a,b'.split(',').index('b') + ord('b')"],
            ["r = r + len(re.sub(r'[ab]', '', 'cabbage')) + len(re.match('(c)(a)', 'cab').groups())"],
            ["r = arrange(r.reshape(1, -1), 'a b -> (b a)')"],
            ["r = r + math.floor({k}.5) + math.gcd(12, {k} + 2) + math.isclose(1.0, 1.0)"],
            ["r = r + np.float32({k}) + np.prod((1, 2)) + np.sqrt(4)"],
            ["r = r + torch.from_numpy(np.ones(1, dtype=np.float32))"],
            ["r = r + float(np.arange(3)[{k} - 3])"],
            ["r = r + torch.as_tensor([1.0, {k}]).sum()"],
            ["made = [i * {k} for i in range(3) if i]", "r = r + sum(made)", "made.append(r.sum())", "r = r + made[-1]"],
            ["made = {{str(i): i for i in range({k})}}", "made.setdefault('q', []).append(1)", "r = r + len(made)"],
            ["def numbers(n):", "    for i in range(n):", "        yield i", "    return 5", "", "r = r + sum(numbers({k}))"],
            ["def both(n):", "    got = yield n", "    yield got * 2", "", "g = both({k})", "r = r + next(g) + g.send(3)"],
            ["try:", "    raise ValueError({k}) from KeyError('c')", "except ValueError as error:", "    r = r + error.args[0] + isinstance(error.__cause__, KeyError)"],
            ["try:", "    r = r + [1][{k}]", "except IndexError:", "    r = r * 2", "else:", "    r = r + 1", "finally:", "    r = r - 1"],
            ["try:", "    try:", "        r = r + {{}}['a']", "    finally:", "        r = r + 1", "except KeyError as error:", "    r = r + len(error.args)"],
            ["class Local:", "    n = {k}", "", "r = r + Local.n"],
            ["made = type('Made', (), dict(n={k}))", "r = r + made().n"],
            ["made = Settings(n={k})", "made.n += 1", "r = r + made.n + made.total"],
            ["made = Pair({k})", "r = r + made.first * made.second"],
            ["r = r + Mode['FIRST'].value + (Bits.LOW | Bits.HIGH).value"],
            ["made = copy.deepcopy([1, {{'a': r.detach()}}])", "r = r + made[1]['a']"],
            ["made = copy.copy({{'a': {k}}})", "r = r + made['a']"],
            ["made = collections.Counter('abca')", "r = r + made['a'] + len(made.most_common(1))"],
            ["made = collections.defaultdict(list)", "made['a'].append({k})", "r = r + len(made['a'])"],
            ["made = collections.deque([1, 2], maxlen=2)", "made.append({k})", "r = r + made[0]"],
            ["made = collections.ChainMap(dict(a=1), dict(b={k}))", "r = r + made['b'] + len(made)"],
            ["n = 0", "while n < {k}:", "    n += 1", "    if n == 2:", "        break", "else:", "    r = r * 2", "r = r + n"],
            ["make = [lambda r, i=i: r + i for i in range({k})]", "for g in make:", "    r = g(r)"],
            ["n = {k}", "def add(m):", "    nonlocal n", "    n += m", "    return n", "", "r = r + add(1) + n"],
            ["if (n := {k} + 1) > 2:", "    r = r + n"],
            ["r = (lambda *a, **k: a[0] + len(a) + len(k))(r, 1, *(2, 3), x={k}, **dict(y=1))"],
            ["assert {k} >= 0, 'never'", "r = r + 1"],
            ["r = r + len(locals()) * 0 + ('r' in locals())"],
            ["r = r + ('torch' in globals()) + len(vars(types.SimpleNamespace(a=1)))"],
            ["r = r + isinstance([], collections.abc.Sequence) + issubclass(dict, collections.abc.Mapping)"],
            ["r = r + len(inspect.signature(lambda a, b=1: a).parameters)"],
            ["warnings.warn('fuzzed {k}')", "r = r + 1"],
            ["r = r + len(json.dumps(dict(a={k})))"],
            ["r = r + statistics.mean([1, {k}])"],
            ["r = r + bisect.bisect([1, 2], {k}) + heapq.nsmallest(1, [3, {k}])[0]"],
            ["r = r + len(string.Template('$a').substitute(a={k})) + len(textwrap.dedent(' a'))"],
            ["r = r + decimal.Decimal('1.5').__float__() + fractions.Fraction(1, 2).__float__()"],
            ["made = weakref.ref(Settings)", "r = r + (made() is Settings)"],
            ["r = r + (datetime.timedelta(days={k}).days) + len(os.path.join('a', 'b'))"],
        ],
        ["cached.cache_clear()", "warnings.simplefilter('ignore')"],
        weight=22,
    ),
}
