"""Statements that capture must refuse, one at least for each kind of graph break, and calls that rules refuse.

What is refused here is right in plain Python, and deterministic: no address, clock or order of a set is seen.
"""

from conformance.fuzz.vocabulary import Topic

SUPPORT = {
    "Ends": '''
class Ends:
    """Its end is seen."""

    ended = 0

    def __del__(self):
        Ends.ended += 1
''',
    "started": '''
def started():
    """A generator that has begun."""

    def count():
        n = 0
        while True:
            n += 1
            yield n

    made = count()
    next(made)
    return made
''',
    "noisy": '''
class Noisy:
    """Whose every answer is printed."""

    def __len__(self):
        print("len")
        return 2

    def __bool__(self):
        print("bool")
        return True

    def __iter__(self):
        print("iter")
        return iter([1, 2])

    def __hash__(self):
        print("hash")
        return 4

    def __eq__(self, other):
        print("eq")
        return True

    def __str__(self):
        print("str")
        return "noisy"

    __repr__ = __str__

    def __format__(self, spec):
        print("format")
        return spec

    def __getattr__(self, name):
        print("getattr", name)
        return 3

    def __setattr__(self, name, value):
        print("setattr", name)

    def __delattr__(self, name):
        print("delattr", name)

    def __setitem__(self, key, value):
        print("setitem")

    def __delitem__(self, key):
        print("delitem")

    def __iadd__(self, other):
        print("iadd")
        return self

    def __call__(self, r):
        print("call")
        return r + 1

    def __enter__(self):
        print("enter")
        return self

    def __exit__(self, *error):
        print("exit")


class NoisyMeta(type):
    def __instancecheck__(cls, other):
        print("instancecheck")
        return True

    def __subclasscheck__(cls, other):
        print("subclasscheck")
        return True


class NoisyType(metaclass=NoisyMeta):
    pass


noisy = Noisy()
''',
    "ITERATOR": "\nITERATOR = iter(range(10**6))\n",
    "Watched": '''
class Watched(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        print("hook")
        return True
''',
    "alarm_soon": '''
def alarm_soon():
    """A signal arrives while a loop runs, and is seen by nothing."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
''',
    "allowed": '''
@torch.compiler.allow_in_graph
def allowed(r):
    return r.sin() + 1
''',
}

TOPICS = {
    "breaks": Topic(
        [
            ["print('out', r.dim())"],
            ["torch._dynamo.graph_break()"],
            ["if r.sum() > {k}:", "    r = r * 1", "else:", "    r = r + 0"],
            ["r = r + (r.sum() == r.sum()).item()"],
            ["r = r + len(r.tolist()) if r.dim() else r"],
            ["n = int(vector(3).sum())", "r = r + n"],
            ["r = torch.compiler.disable(lambda r: r + 1)(r)"],
            ["r = r + len(os.getcwd()) * 0 + time.time() * 0"],
            ["r = r + len(sys.argv[0:0]) + sys.getsizeof([]) * 0"],
            ["r = r + next(ITERATOR) * 0"],
            ["made = started()", "r = r + next(made)"],
            ["sys.modules.pop('colorsys', None)", "import colorsys", "r = r + colorsys.rgb_to_hsv(1, 1, 1)[2]"],
            ["import __future__", "r = r + 1"],
            ["made = object()", "r = r + (id(made) == id(made)) + hash(made) * 0"],
            ["made = Ends()", "del made", "r = r + Ends.ended"],
            ["made = Ends()", "made = None", "print(Ends.ended)"],
            ["class Within:", "    def go(self, r):", "        return super().__sizeof__() * 0 + r", "", "r = Within().go(r)"],
            ["async def later():", "    return 2", "", "c = later()", "try:", "    c.send(None)", "except StopIteration as stop:", "    r = r + stop.value"],
            ["q = r.detach().to_sparse()", "r = r + q.to_dense().sum()"],
            ["r = r + torch.ones(2, device='meta').shape[0]"],
            ["q = vector().set_(vector(4).untyped_storage(), 0, (2,), (1,))", "r = r + q.sum()"],
            ["q = vector()", "q.resize_(2)", "r = r + q.sum()"],
            ["r = r + vector().data_ptr() * 0"],
            ["r = r + r.storage_offset() + r._is_view() * 0"],
            ["q = r * 1", "q.mine = {k}", "r = r + q.mine"],
            ["q = vector()", "q.mine = r.sum()", "r = q.mine + vars(q)['mine']"],
            ["torch.set_default_dtype(torch.float32)"],
            ["torch.set_num_threads(torch.get_num_threads())"],
            ["torch.manual_seed({k})"],
            ["r = r + torch.get_rng_state().numel() * 0"],
            ["try:", "    r = r + torch.ones(2) @ torch.ones(3)", "except RuntimeError as error:", "    r = r + (len(str(error)) > 3)"],
            ["try:", "    r = r.reshape(-1, 7)", "except RuntimeError:", "    r = r + 1"],
            ["made = iter([1, 2, {k}])", "r = r + next(made)", "print('held')", "r = r + next(made)"],
            ["made = (i for i in range(3))", "print('held')", "r = r + sum(made)"],
            ["with memoryview(b'abc') as view:", "    print(len(view))", "    r = r + len(view)"],
            ["r = r + torch.autograd.functional.jacobian(torch.sin, vector(1)).sum()"],
            ["x = vector().requires_grad_()", "(x * x).sum().backward()", "r = r + x.grad.sum()"],
            ["x = vector().requires_grad_()", "g, = torch.autograd.grad((x * x).sum(), x, create_graph=True)", "r = r + g.sum()"],
            ["x = (vector().requires_grad_() * 2)", "r = r + len(x.grad_fn.name()) * 0"],
            ["x = (vector().requires_grad_() * 2)", "x.register_hook(lambda g: print('g') or g)", "r = r + x.sum()"],
            ["r = framefuse.cond(r.sum() == r.sum(), lambda r: r * 2, lambda r: print('no') or r, (r,))"],
            ["r = framefuse.cond(torch.tensor(True), lambda r: r.item(), lambda r: 1, (r.sum(),))"],
            ["r = torch.utils.checkpoint.checkpoint(lambda r: print('in') or r * 2, r, use_reentrant=False)"],
            ["with torch.autograd.graph.save_on_cpu():", "    r = r.sin() * r"],
            ["exec('n = {k}', {{}})", "r = r + eval('{k} + 1')"],
            ["r = r + len(open(os.devnull).read())"],
            ["r = r + sys.getrecursionlimit() * 0"],
            ["held = [r * 1]", "held.append(held)", "print(len(held))", "r = r + held[0]"],
            ["try:", "    raise KeyError({k})", "except KeyError:", "    print('handling', sys.exc_info()[0])", "    r = r + 1"],
            ["try:", "    raise KeyError({k})", "except KeyError as first:", "    try:", "        raise ValueError", "    except ValueError as second:", "        print(second.__context__ is first)", "r = r + 1"],
            ["try:", "    raise ExceptionGroup('g', [ValueError({k})])", "except* ValueError as group:", "    r = r + len(group.exceptions)"],
            ["def late(r):", "    return r + unset", "", "try:", "    r = late(r)", "except NameError:", "    r = r + 1", "unset = 1"],
            ["r = r + threading.active_count() * 0"],
            ["q = vector().numpy()", "r = r + float(q[0])"],
            ["r = r + torch.tensor(np.array([1.0])).sum()"],
            ["for _ in range(3):", "    r = r + 1", "    if _ == 1:", "        print('mid')"],
            ["r = torch.stack([r + i for i in range(2) if print(i) is None]).sum(0)"],
            ["with contextlib.suppress(ValueError):", "    print('in')", "    raise ValueError"],
            ["for _ in range(40):", "    r = r + 0.5"],
            ["n = 0", "for i in range(130000):", "    n += i % 3", "r = r + n"],
            ["alarm_soon()", "n = 0", "for i in range(50000):", "    n += i % 3", "r = r + n"],
        ],
        weight=14,
    ),
    "rules": Topic(
        [
            ["r = r + len(noisy)"],
            ["r = r + (3 if noisy else 1)"],
            ["r = r + sum(noisy)"],
            ["r = r + sum(iter(noisy))"],
            ["r = r + hash(noisy) % 3"],
            ["r = r + (noisy == 1) + (1 in [noisy])"],
            ["r = r + len(str(noisy)) + len(repr(noisy)) + len(ascii(noisy))"],
            ["r = r + len(f'{{noisy:ab}}') + len(format(noisy, 'a'))"],
            ["r = r + noisy.abc + getattr(noisy, 'x') + hasattr(noisy, 'y')"],
            ["noisy.n = 1", "setattr(noisy, 'm', 2)"],
            ["del noisy.n", "delattr(noisy, 'm')"],
            ["operator.setitem(noisy, 0, 1)", "operator.delitem(noisy, 0)", "operator.iadd(noisy, 1)"],
            ["r = noisy(r) + callable(noisy)"],
            ["with noisy:", "    r = r + 1"],
            ["r = r + isinstance(1, NoisyType) + issubclass(int, NoisyType)"],
            ["r = r + isinstance(noisy, Watched) + issubclass(Noisy, Watched)"],
            ["r = r + isinstance(noisy, Noisy) + issubclass(bool, int)"],
            ["r = r + len(repr([1, (2, 'a'), {{'b': None}}])) + len(ascii('\u00e9')) + len(str(1.5))"],
            ["r = r + len(repr(object())) * 0 + len(str(Ends)) * 0"],
            ["r = r + len(repr(r.shape)) + len(f'{{r.dim()}}')"],
            ["r = r + len(str(r.detach() * 0)) * 0"],
            ["table = {{'a': 1}}", "operator.setitem(table, 'b', {k})", "operator.delitem(table, 'a')", "r = r + len(table)"],
            ["row = [1, 2]", "operator.iadd(row, [3])", "operator.imul(row, 2)", "r = r + len(row)"],
            ["setattr(types, 'of_fuzz', {k})", "r = r + getattr(types, 'of_fuzz')", "delattr(types, 'of_fuzz')"],
            ["made = types.SimpleNamespace(a=1)", "setattr(made, 'b', {k})", "delattr(made, 'a')", "r = r + hasattr(made, 'a') + made.b"],
            ["r = r + len(vars(types)) * 0 + len(vars(Noisy)) * 0"],
            ["r = r + len(globals()) * 0"],
            ["r = r + id(noisy) * 0 + (id(r) == id(r))"],
            ["r = r + (type(r) is torch.Tensor) + (type(1) is int)"],
            ["r = r + next(iter([{k}])) + next(iter([]), 4)"],
            ["r = r + next(ITERATOR) * 0"],
            ["r = r + len(ITERATOR.__class__.__name__)"],
            ["made = [3, 1, {k}]", "heapq.heapify(made)", "heapq.heappush(made, 0)", "r = r + heapq.heappop(made) + made[0]"],
            ["made = [1, 3]", "bisect.insort(made, {k})", "r = r + made[1]"],
            ["made = [noisy, noisy]", "bisect.insort(made, noisy, key=lambda v: print('key') or 0)", "r = r + len(made)"],
            ["r = r + torch._C._len_torch_dispatch_stack()"],
            ["r = r + len(inspect.signature(len).parameters) + len(inspect.signature(torch.nn.functional.relu).parameters)"],
            ["lock = threading.RLock()", "with lock:", "    r = r + 1"],
            ["r = allowed(r)"],
            ["r = r + allowed(ITERATOR)"],
            ["r = r + len(format({k}, '>4')) + len(format(noisy, '')) + len(format(1.5, '.2f'))"],
            ["made = [noisy]", "heapq.heappush(made, noisy)", "r = r + len(made)"],
            ["r = r + operator.itemgetter(noisy)({{noisy: 3}})"],
            ["r = r + operator.methodcaller('go', noisy) .__class__.__name__.__len__()"],
            ["r = r + torch.scalar_tensor({k}, device='meta').dim()"],
            ["r = r + issubclass(type('Made', (), {{}}), Watched) + isinstance(type('Made', (), {{}})(), Watched)"],
            ["try:", "    raise ValueError", "except ValueError:", "    print('handled')", "    r = r + (sys.exc_info()[0] is ValueError)"],
            ["def of(error):", "    return sys.exc_info()[0] is error", "", "try:", "    raise KeyError", "except KeyError:", "    print(1)", "    r = r + of(KeyError)"],
            ["r = r + copy.deepcopy(threading.local()).__class__.__name__.__len__()"],
            ["r = r + inspect.signature(lambda a, *, b=2: a).bind(1).arguments['a']"],
            ["r = r + torch.tensor(1.5) + torch.tensor([[1, {k}]]).sum() + torch.as_tensor(2)"],
            ["r = r + torch.tensor([r.sum().detach(), 1.0]).sum()"],
            ["r = r + torch.scalar_tensor({k}) + torch.finfo(torch.float32).bits + torch.iinfo(torch.int8).max"],
            ["q = (vector() * 2).detach_()", "r = r + q.sum()"],
            ["r = r + torch.promote_types(torch.int8, torch.float32).itemsize + torch.is_tensor(r)"],
            ["r = r + np.maximum({k}, 2) + np.floor(2.5) + np.sum([1, 2]) + np.max((1, {k}))"],
            ["r = r + np.add(np.ones(2), 1).sum()"],
            ["r = r + list(map(operator.neg, [1, {k}]))[0] + operator.itemgetter(1)([5, {k}])"],
            ["r = r + sorted([noisy, 1], key=lambda v: 0).__len__()"],
            ["r = r + max([1, {k}], key=lambda v: print('key') or v)"],
            ["r = r + list(reversed([1, {k}]))[0] + dict(a=1, **dict(b={k}))['b'] + tuple([1])[0]"],
            ["r = r + int('7') + float('1.5') + complex(1, 2).imag + bool([]) + len(bytes(2)) + len(bytearray(b'ab'))"],
            ["r = r + round(2.5) + divmod(7, 2)[0] + pow(2, {k}) + abs(-{k}) + len(bin({k})) + len(hex(9)) + ord(chr(97))"],
            ["r = r + sys.getrecursionlimit() * 0 + len(sys.exc_info())"],
            ["try:", "    raise ValueError", "except ValueError:", "    r = r + (sys.exc_info()[0] is ValueError)"],
            ["with torch.profiler.record_function('a'):", "    with torch.device('cpu'):", "        r = r + torch.ones(1)"],
            ["with torch.profiler.record_function('a'), torch.device('cpu'):", "    print('in both')", "    r = r + torch.ones(1)"],
            ["r = r + len(torch.overrides._get_current_function_mode_stack())"],
            ["r = r + super(Ends, Ends).__init__.__name__.__len__()"],
        ],
        weight=12,
    ),
}
