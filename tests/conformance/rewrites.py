"""Semantics-preserving rewrites: the same program written another way must stay right, and stay whole.

A rewrite is a function on the syntax tree of a program's factory; it changes the functions that the program runs and
keeps every line number. A program that runs models has the text of their module rewritten in the same way.
Invariant: on plain Python a rewritten program does what the original does.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import itertools
import sys
import types
from collections.abc import Callable

from conformance.program import Case, Program

Body = list[ast.stmt]
_SEES_ITS_FRAME = ("locals", "_getframe", "eval", "exec", "extract_tb", "settrace", "co_names", "__code__", "get_type_hints")


def _with_body(wrap: Callable[[Body], Body]) -> Callable[[ast.FunctionDef], None]:
    """A rewrite that wraps the whole body; declarations stay in front."""

    def rewrite(function: ast.FunctionDef) -> None:
        declared = [s for s in function.body if isinstance(s, (ast.Global, ast.Nonlocal))]
        rest = [s for s in function.body if not isinstance(s, (ast.Global, ast.Nonlocal))]
        function.body = declared + wrap(rest)

    return rewrite


def _parsed(text: str, body: Body) -> Body:
    """The statements of `text` with its one `...` statement replaced by `body`."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and item.value.value is ...:
                        value[index : index + 1] = body
                        return tree.body
    raise ValueError("no place for the body")


def _wrapper(text: str) -> Callable[[ast.FunctionDef], None]:
    return _with_body(lambda body: _parsed(text, body))


def _forwarded(arguments: ast.arguments) -> str:
    parts = [a.arg for a in arguments.posonlyargs + arguments.args]
    if arguments.vararg:
        parts.append("*" + arguments.vararg.arg)
    parts += [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs]
    if arguments.kwarg:
        parts.append("**" + arguments.kwarg.arg)
    return ", ".join(parts)


def _inner_function(function: ast.FunctionDef, name: str, extra: tuple[str, ...] = ()) -> ast.FunctionDef:
    inner = copy.deepcopy(function)
    inner.name = name
    inner.decorator_list = []
    inner.args.defaults = []
    inner.args.kw_defaults = [None] * len(inner.args.kwonlyargs)
    inner.args.posonlyargs[:0] = [ast.arg(arg=a) for a in extra]
    return inner


def _extract_function(function: ast.FunctionDef) -> None:
    inner = _inner_function(function, "extracted")
    function.body = [inner, *ast.parse(f"return extracted({_forwarded(function.args)})").body]


class _WrappedInClass(ast.NodeTransformer):
    """The body of a function becomes the method of a class beside it, or beside the class that it is a method of."""

    def __init__(self) -> None:
        self._beside_class: Body | None = None
        self._made = 0

    def visit_ClassDef(self, node: ast.ClassDef) -> list[ast.stmt] | ast.stmt:
        if self._beside_class is not None:
            return self.generic_visit(node)
        self._beside_class = []
        self.generic_visit(node)
        made, self._beside_class = self._beside_class, None
        return [*made, node]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> list[ast.stmt] | ast.stmt:
        # What stands in a function's body stays: a class there would be made in the frame, which is another program.
        if not _is_run(node) or any(_depends_on_its_class(n) for n in ast.walk(node)):
            return node
        wrapper = self._wrapper(node)
        if self._beside_class is None:
            return [wrapper, node]
        self._beside_class.append(wrapper)
        return node

    def _wrapper(self, function: ast.FunctionDef) -> ast.stmt:
        self._made += 1
        name = f"Wrapped{self._made}"
        wrapper = ast.parse(f"class {name}:\n    ...").body[0]
        wrapper.body = [_inner_function(function, "run", ("wrapped_self",))]
        function.body = ast.parse(f"return {name}().run({_forwarded(function.args)})").body
        return wrapper


def _depends_on_its_class(node: ast.AST) -> bool:
    """super() without arguments, and names that a class changes."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in ("super", "__class__") or (name.startswith("__") and not name.endswith("__"))


class _ListOfGenerator(ast.NodeTransformer):
    """[e for t in i] becomes list(e for t in i)."""

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        self.generic_visit(node)
        if any(isinstance(part, (ast.NamedExpr, ast.Await)) for part in ast.walk(node)):
            return node
        generator = ast.copy_location(ast.GeneratorExp(node.elt, node.generators), node)
        return ast.copy_location(ast.Call(ast.Name("list", ast.Load()), [generator], []), node)


class _ComprehensionForLoop(ast.NodeTransformer):
    """for t in i: a.append(e) becomes a.extend([e for t in i]), where nothing else sees t."""

    def __init__(self, function: ast.FunctionDef):
        self._names = [n.id for n in ast.walk(function) if isinstance(n, ast.Name)]

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.For(
                ast.Name(target), iterated, [ast.Expr(ast.Call(ast.Attribute(ast.Name(grown), "append"), [item], []))], []
            ):
                parts = [n for part in (iterated, item) for n in ast.walk(part)]
                read = [n.id for n in parts if isinstance(n, ast.Name)]
                alone = self._names.count(target) == 1 + read.count(target)
                if alone and grown not in read and not any(isinstance(n, _NEVER_MOVED) for n in parts):
                    generators = [ast.comprehension(node.target, iterated, [], 0)]
                    call = node.body[0].value
                    call.func.attr, call.args = "extend", [ast.ListComp(item, generators)]
                    return ast.copy_location(node.body[0], node)
        return node


class _LoopForUnrolled(ast.NodeTransformer):
    """Statements in a row that differ in constants or in the names they read become a loop; items of a display, a
    comprehension."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                setattr(node, field, self._rolled(statements))
        return node

    def _rolled(self, statements: Body) -> Body:
        rolled: Body = []
        for _, row in itertools.groupby(statements, _pattern):
            row = list(row)
            rolled += [_Row(row).loop()] if _may_repeat(row) else row
        return rolled

    def visit_List(self, node: ast.List) -> ast.AST:
        super().generic_visit(node)
        return _Row(node.elts).comprehension(node) if _is_unrolled(node) else node

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        super().generic_visit(node)
        if not _is_unrolled(node):
            return node
        call = ast.Call(ast.Name("tuple", ast.Load()), [_Row(node.elts).comprehension(node)], [])
        return ast.copy_location(call, node)


# What is more than the value of its parts, or binds, or belongs to the frame that it stands in.
_NEVER_MOVED = (ast.JoinedStr, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.Starred, ast.Slice)


def _may_repeat(row: Body) -> bool:
    kinds = (ast.Assign, ast.AugAssign, ast.Expr, ast.Assert)
    if len(row) < 2 or not isinstance(row[0], kinds):
        return False
    # A text of its own is a docstring or a comment, and no code at all.
    text = isinstance(row[0], ast.Expr) and isinstance(row[0].value, ast.Constant)
    nodes = [n for statement in row for n in ast.walk(statement)]
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    read = {n.id for statement in row for n in _leaves(statement) if isinstance(n, ast.Name)}
    return not text and not stored & read and not any(isinstance(n, _NEVER_MOVED) for n in nodes)


def _is_unrolled(display: ast.List | ast.Tuple) -> bool:
    items = display.elts
    if len(items) < 2 or not isinstance(display.ctx, ast.Load) or isinstance(items[0], (ast.Name, ast.Constant)):
        return False
    nodes = [n for item in items for n in ast.walk(item)]
    return len({_pattern(item) for item in items}) == 1 and not any(isinstance(n, _NEVER_MOVED) for n in nodes)


def _leaves(node: ast.AST) -> list[ast.Constant | ast.Name]:
    """Constants and names that are read, in order."""
    leaves = (n for n in ast.walk(node) if isinstance(n, ast.Constant) or (isinstance(n, ast.Name) and _is_read(n)))
    return list(leaves)


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _pattern(node: ast.AST) -> str:
    """The text of a statement or of an item without its leaves."""
    pattern = copy.deepcopy(node)
    for leaf in _leaves(pattern):
        leaf.__dict__.update(value=None, id="")
    return ast.dump(pattern)


class _Row:
    """Equal code over other leaves, as one piece of code and the values that it runs over."""

    def __init__(self, row: list[ast.AST]):
        columns = list(zip(*(_leaves(node) for node in row)))
        self._code = row[0]
        self._columns = [c for c in columns if len({ast.dump(leaf) for leaf in c}) > 1]
        self._count = len(row)

    def _target(self) -> ast.expr:
        names = [ast.Name(f"unrolled_{index}", ast.Store()) for index in range(len(self._columns))]
        return names[0] if len(names) == 1 else ast.Tuple(names, ast.Store()) if names else ast.Name("_", ast.Store())

    def _values(self) -> ast.expr:
        columns = self._columns or [[ast.Constant(None)] * self._count]
        rows = [list(map(copy.copy, row)) for row in zip(*columns)]
        return ast.Tuple([r[0] if len(r) == 1 else ast.Tuple(r, ast.Load()) for r in rows], ast.Load())

    def _named(self) -> ast.AST:
        places = {id(column[0]): f"unrolled_{index}" for index, column in enumerate(self._columns)}

        class Named(ast.NodeTransformer):
            def visit(self, node: ast.AST) -> ast.AST:
                name = places.get(id(node))
                return self.generic_visit(node) if name is None else ast.Name(name, ast.Load())

        return Named().visit(self._code)

    def loop(self) -> ast.stmt:
        values = self._values()
        return ast.copy_location(ast.For(self._target(), values, [self._named()], []), self._code)

    def comprehension(self, where: ast.expr) -> ast.expr:
        values = self._values()
        code = self._named()
        return ast.copy_location(ast.ListComp(code, [ast.comprehension(self._target(), values, [], 0)]), where)


class _SwappedBranches(ast.NodeTransformer):
    """if c: A else: B becomes if not c: B else: A."""

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if not node.orelse:
            return node
        test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        return ast.copy_location(ast.If(test, node.orelse, node.body), node)


class _NamedResult(ast.NodeTransformer):
    """return e becomes result = e; return result."""

    def visit_Return(self, node: ast.Return) -> list[ast.stmt] | ast.stmt:
        if node.value is None:
            return node
        store = ast.copy_location(ast.Assign([ast.Name("named_result", ast.Store())], node.value), node)
        back = ast.copy_location(ast.Return(ast.Name("named_result", ast.Load())), node)
        return [store, back]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    visit_Lambda = visit_ClassDef = visit_FunctionDef


class _KeywordsForPositions(ast.NodeTransformer):
    """g(a, b) becomes g(p=a, q=b) where g is a plain function of the same factory."""

    def __init__(self, factory: ast.FunctionDef):
        functions = [s for s in factory.body if isinstance(s, ast.FunctionDef) and not s.decorator_list]
        self._parameters = {
            s.name: [a.arg for a in s.args.args] for s in functions if not s.args.posonlyargs and not s.args.vararg
        }

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id not in self._parameters:
            return node
        parameters = self._parameters[node.func.id]
        plain = not any(isinstance(a, ast.Starred) for a in node.args) and all(k.arg for k in node.keywords)
        if plain and len(node.args) <= len(parameters):
            named = [ast.keyword(p, a) for p, a in zip(parameters, node.args)]
            node.args, node.keywords = [], named + node.keywords
        return node


def _comprehension_for_loop(function: ast.FunctionDef) -> None:
    _ComprehensionForLoop(function).generic_visit(function)


def _loop_for_unrolled(function: ast.FunctionDef) -> None:
    _LoopForUnrolled().generic_visit(function)


def _transformed(transformer: type[ast.NodeTransformer]) -> Callable[[ast.FunctionDef], None]:
    def rewrite(function: ast.FunctionDef) -> None:
        tree = ast.Module(function.body, [])
        function.body = transformer().visit(tree).body if transformer is not _NamedResult else _named(tree)

    return rewrite


def _named(tree: ast.Module) -> Body:
    return _NamedResult().generic_visit(tree).body


_OF_A_FUNCTION: dict[str, Callable[[ast.FunctionDef], None]] = {
    "try-finally": _wrapper("try:\n    ...\nfinally:\n    pass"),
    "try-reraise": _wrapper("try:\n    ...\nexcept ZeroDivisionError:\n    raise"),
    "nullcontext": _wrapper("import contextlib\nwith contextlib.nullcontext():\n    ..."),
    "loop-once": _wrapper("for loop_once in range(1):\n    ..."),
    "while-true": _wrapper("while True:\n    ...\n    break"),
    "match-anything": _wrapper("match 0:\n    case _:\n        ..."),
    "extract-function": _extract_function,
    "list-of-generator": _transformed(_ListOfGenerator),
    "comprehension-for-loop": _comprehension_for_loop,
    "loop-for-unrolled": _loop_for_unrolled,
    "swap-branches": _transformed(_SwappedBranches),
    "name-result": _transformed(_NamedResult),
}

# These change more than one function at a time.
_OF_THE_WHOLE: dict[str, Callable[[ast.AST], ast.NodeTransformer]] = {
    "wrap-in-class": lambda whole: _WrappedInClass(),
    "keywords": _KeywordsForPositions,
}

REWRITES = [*_OF_A_FUNCTION, *_OF_THE_WHOLE]


def _is_run(function: ast.FunctionDef) -> bool:
    """Whether it is a plain function or method; the factory around them is not among those asked for."""
    has_yield = (ast.Yield, ast.YieldFrom)
    body = [n for s in function.body for n in ast.walk(s)]
    special = function.decorator_list or function.name.startswith("__")
    return not special and not any(isinstance(n, has_yield) for n in body)


def _apply(rewrite: str, whole: ast.FunctionDef | ast.Module) -> bool:
    """Rewrites in place; False if there was nothing to rewrite."""
    before = ast.dump(whole)
    if rewrite in _OF_THE_WHOLE:
        _OF_THE_WHOLE[rewrite](whole).generic_visit(whole)
    else:
        functions = [n for n in ast.walk(whole) if isinstance(n, ast.FunctionDef) and n is not whole]
        for function in filter(_is_run, functions):
            _OF_A_FUNCTION[rewrite](function)
    return ast.dump(whole) != before


def _module_rewritten(rewrite: str, module: types.ModuleType) -> types.ModuleType | None:
    """The module written another way, beside the original; None where there is nothing to rewrite."""
    tree = ast.parse(inspect.getsource(module))
    if not _apply(rewrite, tree):
        return None
    made = types.ModuleType(module.__name__)
    made.__file__ = module.__file__
    exec(compile(ast.fix_missing_locations(tree), module.__file__ or "", "exec", dont_inherit=True), made.__dict__)
    return made


def rewritten(program: Program, rewrite: str) -> Program | None:
    """The program written another way; None where there is nothing to rewrite or the program looks at its own text."""
    source = inspect.getsource(program.factory)
    if any(text in source for text in _SEES_ITS_FRAME):
        return None
    module = sys.modules[program.factory.__module__]
    tree = ast.parse(source)
    ast.increment_lineno(tree, inspect.getsourcelines(program.factory)[1] - 1)
    factory = tree.body[0]
    assert isinstance(factory, ast.FunctionDef)
    factory.decorator_list = []
    changed = _apply(rewrite, factory)
    namespace = module.__dict__
    if program.runs is not None and (models := _module_rewritten(rewrite, program.runs)) is not None:
        changed = True
        namespace = {k: models if v is program.runs else v for k, v in namespace.items()}
    if not changed:
        return None
    ast.fix_missing_locations(tree)
    names: dict[str, Callable[[], Case]] = {}
    exec(compile(tree, module.__file__ or "", "exec", dont_inherit=True), namespace, names)
    return dataclasses.replace(program, name=f"{program.name}~{rewrite}", factory=names[factory.name], graphs=None)
