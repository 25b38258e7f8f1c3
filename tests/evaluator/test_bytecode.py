"""Decoding agrees with `dis` on the standard library; liveness agrees with an independent path search."""

import dis
import os
import pathlib
import sys
import sysconfig
import types
import unittest
import warnings

import evaluator_module
import programs

evaluator = evaluator_module.load()

NEUTRAL = {
    "JUMP_FORWARD": "JUMP",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
    "LOAD_FAST_CHECK": "LOAD_FAST_CHECK",
    "LOAD_FAST_BORROW": "LOAD_FAST",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": "LOAD_FAST_LOAD_FAST",
    "NOT_TAKEN": "NOP",
    "POP_ITER": "POP_TOP",
}
NB_SUBSCR = 26


def code_objects(code):
    if code is None:
        return
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def library_files():
    """All of the standard library's with FF_NIGHTLY, else every tenth and what has the rarer instructions."""
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    files = [file for file in sorted(root.rglob("*.py")) if "site-packages" not in file.parts]
    if os.environ.get("FF_NIGHTLY"):
        return files
    rare = [root / "test" / name for name in ("test_patma.py", "test_grammar.py", "test_except_star.py")]
    return files[::10] + [file for file in rare if file.exists()]


def compile_file(file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compile(file.read_bytes(), str(file), "exec")
        except (SyntaxError, ValueError):
            return None  # the library has some on purpose


def neutral(instruction):
    """The name and argument that decoding makes of a dis instruction, per this Python's encoding."""
    name, arg = instruction.opname, instruction.arg or 0
    name = NEUTRAL.get(name, name)
    if name.startswith("POP_JUMP_"):
        name = name.replace("FORWARD_", "").replace("BACKWARD_", "")
    if sys.version_info >= (3, 12) and name == "LOAD_ATTR":
        name, arg = ("LOAD_METHOD" if arg & 1 else "LOAD_ATTR"), arg >> 1
    if sys.version_info >= (3, 13):
        if name == "COMPARE_OP":
            arg >>= 5
        elif name == "RESUME":
            arg &= 3
        elif name == "BINARY_OP" and arg == NB_SUBSCR:  # from 3.14 on
            name, arg = "BINARY_SUBSCR", 0
    elif sys.version_info >= (3, 12) and name == "COMPARE_OP":
        arg >>= 4
    return name, arg


# What an exhausted loop jumps over: an END_FOR, and from 3.13 on what drops the iterator.
UNITS_AFTER_LOOP = 2 if sys.version_info >= (3, 13) else 1


class DecodeTest(unittest.TestCase):
    maxDiff = None

    def check(self, code):
        decoded = iter(evaluator.decode(code))
        kwnames = -1
        start = None
        previous = None
        by_offset = {}
        for instruction in dis.get_instructions(code):
            by_offset[instruction.offset] = instruction
        for instruction in by_offset.values():
            index = instruction.offset // 2
            if start is None:
                start = index
            if instruction.opname in ("EXTENDED_ARG", "PRECALL"):
                continue
            if instruction.opname == "KW_NAMES":
                kwnames = instruction.arg
                continue
            name, raw, arg, keywords, first, at, following, target, pops = next(decoded)
            wanted_name, wanted_arg = neutral(instruction)
            self.assertEqual((wanted_name, index, start, kwnames), (name, at, first, keywords), instruction)
            # dis says None of an opcode without argument.
            if instruction.arg is not None:
                self.assertEqual(wanted_arg, arg, instruction)
            self.assertEqual(raw, instruction.opcode)
            # END_ASYNC_FOR only says where the loop is.
            if instruction.opcode in dis.hasjrel and instruction.opname != "END_ASYNC_FOR":
                wanted = instruction.argval // 2
                if instruction.opname == "FOR_ITER" and by_offset[instruction.argval].opname == "END_FOR":
                    wanted += UNITS_AFTER_LOOP
                self.assertEqual(wanted, target, instruction)
            else:
                self.assertIsNone(target)
            if previous is not None:
                self.assertEqual(previous, start)
            previous = following
            start, kwnames = None, -1
        self.assertRaises(StopIteration, next, decoded)
        self.assertEqual(previous, len(code.co_code) // 2)
        entries = [(e.start // 2, e.end // 2, e.target // 2, e.depth, e.lasti) for e in dis._parse_exception_table(code)]
        self.assertEqual(entries, evaluator.handlers(code))
        lines = [line for start, end, line in code.co_lines() for _ in range(start, end, 2)]
        self.assertEqual(lines, evaluator.lines(code))

    def test_standard_library(self):
        count = 0
        for file in library_files():
            for code in code_objects(compile_file(file)):
                self.check(code)
                count += 1
        self.assertGreater(count, 1000)  # distributions leave parts of the library out

    def test_quickened_code_decodes_the_same(self):
        def loop(n):
            total = 0
            for i in range(n):
                total += i
            return total

        before = [entry[:3] for entry in evaluator.decode(loop.__code__.replace())]
        loop(10_000)
        self.assertEqual(before, [entry[:3] for entry in evaluator.decode(loop.__code__.replace())])
        self.assertEqual(before, [entry[:3] for entry in evaluator.decode(loop.__code__)])

    def test_stack_effects_are_bounded(self):
        for file in library_files()[:20]:
            for code in code_objects(compile_file(file)):
                for entry in evaluator.decode(code):
                    self.assertLessEqual(entry[8], code.co_stacksize)


class LivenessTest(unittest.TestCase):
    READS = {
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_AND_CLEAR",
        "DELETE_FAST",
        "LOAD_CLOSURE",
        "MAKE_CELL",
        "LOAD_DEREF",
        "STORE_DEREF",
        "DELETE_DEREF",
        "LOAD_CLASSDEREF",
        "LOAD_FROM_DICT_OR_DEREF",
    }
    ENDS = {"JUMP", "JUMP_BACKWARD", "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"}

    def uses(self, name, arg):
        """The slots that an instruction reads before it writes them, and those that it writes."""
        first, second = arg >> 4, arg & 15
        if name == "LOAD_FAST_LOAD_FAST":
            return {first, second}, set()
        if name == "STORE_FAST_LOAD_FAST":
            return {second} - {first}, {first}
        if name == "STORE_FAST_STORE_FAST":
            return set(), {first, second}
        return ({arg} if name in self.READS else set()), ({arg} if name == "STORE_FAST" else set())

    def live_by_search(self, instructions, handlers, start, slot):
        """Whether some path from `start` reads `slot` before a write."""
        by_start = {entry[4]: entry for entry in instructions}
        cover = {entry[5]: entry[4] for entry in instructions}
        first_at = {}
        for entry in instructions:
            for index in range(entry[4], entry[6]):
                first_at[index] = entry[4]
        del cover
        pending, seen = [start], set()
        while pending:
            at = pending.pop()
            if at in seen:
                continue
            seen.add(at)
            name, _, arg, _, _, index, following, target, _ = by_start[at]
            reads, writes = self.uses(name, arg)
            if slot in reads:
                return True
            for first, last, handler, _, _ in handlers:
                if first <= index < last:
                    pending.append(first_at[handler])
            if slot in writes:
                continue
            if name not in self.ENDS and following in by_start:
                pending.append(following)
            if target is not None:
                pending.append(target)
        return False

    def test_against_path_search(self):
        checked = 0
        for function in programs.PROGRAMS:
            for code in code_objects(function.__code__):
                instructions, handlers = evaluator.decode(code), evaluator.handlers(code)
                live = evaluator.live_slots(code)
                slots = range(len(code.co_varnames) + len(code.co_cellvars) + len(code.co_freevars))
                for entry in instructions:
                    for slot in slots:
                        expected = self.live_by_search(instructions, handlers, entry[4], slot)
                        self.assertEqual(expected, slot in live[entry[4]], (code.co_name, entry, slot))
                        checked += 1
        self.assertGreater(checked, 5000)

    def test_example(self):
        def f(a, b):
            c = a + 1
            while c < b:
                c += 1
            try:
                d = g(c)
            except ValueError:
                d = b
            return d

        code = f.__code__
        a, b, c, d = (code.co_varnames.index(name) for name in "abcd")
        live = evaluator.live_slots(code)
        self.assertEqual({a, b}, live[0])
        for entry in evaluator.decode(code):
            if entry[0] == "LOAD_GLOBAL" and code.co_names[entry[2] >> 1] == "g":
                self.assertEqual({b, c}, live[entry[4]])
                break
        else:
            self.fail("no LOAD_GLOBAL of g")


class OpcodeTableTest(unittest.TestCase):
    def test_every_opcode_is_executed(self):
        # CACHE and RESERVED are never executed, INTERPRETER_EXIT and EXIT_INIT_CHECK are CPython's own trampolines';
        # instrumented forms and executors are never seen, since the original bytecode is decoded.
        table = evaluator.opcodes()
        expected = {
            number: name
            for name, number in dis.opmap.items()
            if number < 256
            and name not in ("CACHE", "RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR")
            and not name.startswith("INSTRUMENTED_")
        }
        self.assertEqual(expected, {number: name for number, (name, _) in table.items()} | {dis.EXTENDED_ARG: "EXTENDED_ARG"})
        for number, (name, handled) in sorted(table.items()):
            print(f"{number:4} {name:32} {'yes' if handled else 'NO'}")
            self.assertTrue(handled, name)


if __name__ == "__main__":
    unittest.main()
