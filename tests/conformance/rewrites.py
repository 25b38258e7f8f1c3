"""Semantics-preserving rewrites: the same program written another way must stay right, and stay whole.

A rewrite is a function on the syntax tree of a program's factory; it changes the functions that the program runs and
keeps every line number. Invariant: on plain Python a rewritten program does what the original does.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import sys
from collections.abc import Callable

from conformance.program import Case, Program

Body = list[ast.stmt]
_RUN_BY_PROGRAM = ("f", "forward")
_SEES_ITS_FRAME = ("locals", "_getframe", "eval", "exec", "extract_tb", "settrace", "co_names", "get_type_hints")


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


def _wrap_in_class(function: ast.FunctionDef) -> None:
    inner = _inner_function(function, "run", ("wrapped_self",))
    body = ast.parse(f"class Wrapped:\n    ...\nreturn Wrapped().run({_forwarded(function.args)})").body
    body[0].body = [inner]
    function.body = body


class _ListOfGenerator(ast.NodeTransformer):
    """[e for t in i] becomes list(e for t in i)."""

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        self.generic_visit(node)
        if any(isinstance(part, (ast.NamedExpr, ast.Await)) for part in ast.walk(node)):
            return node
        generator = ast.copy_location(ast.GeneratorExp(node.elt, node.generators), node)
        return ast.copy_location(ast.Call(ast.Name("list", ast.Load()), [generator], []), node)


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


def _transformed(transformer: type[ast.NodeTransformer]) -> Callable[[ast.FunctionDef], None]:
    def rewrite(function: ast.FunctionDef) -> None:
        tree = ast.Module(function.body, [])
        function.body = transformer().visit(tree).body if transformer is not _NamedResult else _named(tree)

    return rewrite


def _named(tree: ast.Module) -> Body:
    return _NamedResult().generic_visit(tree).body


REWRITES: dict[str, Callable[[ast.FunctionDef], None]] = {
    "try-finally": _wrapper("try:\n    ...\nfinally:\n    pass"),
    "try-reraise": _wrapper("try:\n    ...\nexcept ZeroDivisionError:\n    raise"),
    "nullcontext": _wrapper("import contextlib\nwith contextlib.nullcontext():\n    ..."),
    "loop-once": _wrapper("for loop_once in range(1):\n    ..."),
    "while-true": _wrapper("while True:\n    ...\n    break"),
    "match-anything": _wrapper("match 0:\n    case _:\n        ..."),
    "extract-function": _extract_function,
    "wrap-in-class": _wrap_in_class,
    "list-of-generator": _transformed(_ListOfGenerator),
    "swap-branches": _transformed(_SwappedBranches),
    "name-result": _transformed(_NamedResult),
    "keywords": lambda function: None,  # needs the factory; see _apply
}


def _functions_run(factory: ast.FunctionDef) -> list[ast.FunctionDef]:
    found = [n for n in ast.walk(factory) if isinstance(n, ast.FunctionDef) and n.name in _RUN_BY_PROGRAM]
    has_yield = (ast.Yield, ast.YieldFrom)
    return [f for f in found if not any(isinstance(n, has_yield) for s in f.body for n in ast.walk(s))]


def _apply(rewrite: str, factory: ast.FunctionDef) -> bool:
    """Rewrites in place; False if there was nothing to rewrite."""
    before = ast.dump(factory)
    if rewrite == "keywords":
        _KeywordsForPositions(factory).generic_visit(factory)
    else:
        for function in _functions_run(factory):
            REWRITES[rewrite](function)
    return ast.dump(factory) != before


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
    if not _apply(rewrite, factory):
        return None
    ast.fix_missing_locations(tree)
    names: dict[str, Callable[[], Case]] = {}
    exec(compile(tree, module.__file__ or "", "exec", dont_inherit=True), module.__dict__, names)
    return dataclasses.replace(program, name=f"{program.name}~{rewrite}", factory=names[factory.name], graphs=None)
