"""Runs modules of CPython's own test-suite with framefuse's evaluator and compares each test's outcome with the plain
interpreter's.

usage: lib_test.py --evaluator DIRECTORY [--python PYTHON] [--jobs N] [MODULE ...]

Tests whose outcome in the plain interpreter is not stable between two runs are left out of the comparison and listed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODULES = """
test_grammar test_scope test_generators test_generator_stop test_exceptions test_class test_descr test_descrtut
test_dict test_list test_tuple test_set test_with test_patma test_fstring test_listcomps test_setcomps test_dictcomps
test_genexps test_compare test_augassign test_unary test_binop test_iter test_enumerate test_super test_contextlib
test_functools test_itertools test_dataclasses test_enum test_collections test_property test_raise test_traceback
test_sys test_inspect test_warnings test_coroutines test_asyncgen test_except_star test_exception_group
test_exception_variations test_exception_hierarchy test_builtin test_funcattrs test_keywordonlyarg test_positional_only_arg
test_extcall test_unpack test_unpack_ex test_call test_decorators test_global test_named_expressions test_opcodes
test_pow test_range test_slice test_string_literals test_syntax test_types test_typing test_weakref test_yield_from
test_long test_float test_int test_bool test_unicode test_str test_bytes test_math test_operator test_copy test_pickle test_json
test_re test_random test_heapq test_bisect test_deque test_ordered_dict test_userdict test_userlist test_string
test_textwrap test_statistics test_fractions test_decimal test_abc test_metaclass test_subclassinit test_dynamic
test_frame test_code test_dis test_compile test_peepholer test_context test_contextlib_async test_threading
test_gc test_finalization test_import test_importlib test_pkgutil test_logging test_ast test_tokenize test_argparse
test_optparse test_unittest test_doctest test_isinstance test_hash test_index test_contains test_complex
test_format test_print test_richcmp test_sort test_structseq test_tabnanny test_type_annotations
test_type_comments test_utf8source test_zipimport test_queue test_sched test_signal test_asyncio test_buffer
""".split()


# Tests of what an interpreter other than CPython's own does not do, by a part of their names.
EXPECTED = {
    # The adaptive interpreter's rewritten instructions.
    "test_dis": ("specialize", "quicken", "super_instructions", "show_caches"),
    # Thousands of frames in frames: here each counts as a call of C too, of which 3.13 allows 5,000.
    "test_functools": ("TestLRUPy.test_lru_recursion",),
    "test_call": ("test_super_deep",),
    # Tracing that starts inside of running frames.
    "test_doctest": ("pdb_set_trace",),
}


def run(options, module, hooked, output):
    command = [options.python, str(pathlib.Path(__file__).with_name("run_module_tests.py")), module, output]
    if hooked:
        command += ["--evaluator", options.evaluator]
    environment = dict(os.environ, PYTHONHASHSEED="0")
    try:
        done = subprocess.run(
            command, cwd=os.path.dirname(output), env=environment, capture_output=True, text=True, errors="replace", timeout=options.timeout
        )
    except subprocess.TimeoutExpired:
        return None, "timeout"
    try:
        with open(output) as file:
            return json.load(file), ""
    except (OSError, ValueError):
        return None, f"exit status {done.returncode}\n" + done.stderr[-3000:]


def check(options, module):
    with tempfile.TemporaryDirectory() as folder:
        plain, why = run(options, module, False, os.path.join(folder, "plain"))
        if plain is None:
            return module, None, [f"plain interpreter: {why}"], [], 0
        hooked, why = run(options, module, True, os.path.join(folder, "hooked"))
        if hooked is None:
            return module, len(plain["outcomes"]), [f"evaluator: {why}"], [], 0
        wrong = sorted(
            key
            for key in plain["outcomes"].keys() | hooked["outcomes"].keys()
            if plain["outcomes"].get(key, "").split(":")[0] != hooked["outcomes"].get(key, "").split(":")[0]
        )
        unstable = []
        if wrong:
            again, _ = run(options, module, False, os.path.join(folder, "again"))
            again = again["outcomes"] if again else {}
            unstable = [key for key in wrong if again.get(key) != plain["outcomes"].get(key)]
        lines = [
            f"{key}\n    plain:     {plain['outcomes'].get(key)}\n    evaluator: {hooked['outcomes'].get(key)}"
            for key in wrong
            if key not in unstable and not any(part in key for part in EXPECTED.get(module, ()))
        ]
        return module, len(plain["outcomes"]), lines, unstable, hooked["stats"]["instructions"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluator", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("modules", nargs="*", default=None)
    options = parser.parse_args()
    options.evaluator = os.path.abspath(options.evaluator)
    modules = options.modules or MODULES
    tests = instructions = failed = same_modules = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for module, count, wrong, unstable, executed in pool.map(lambda name: check(options, name), modules):
            if count is None:
                print(f"{module}: not run, {wrong[0]}", flush=True)
                continue
            tests += count
            instructions += executed
            failed += len(wrong)
            same_modules += not wrong
            print(f"{module}: {count} tests, {executed} instructions, {len(wrong)} different", flush=True)
            for line in wrong:
                print("  " + line, flush=True)
            for key in unstable:
                print(f"  unstable in the plain interpreter: {key}", flush=True)
    print(f"{same_modules} modules equal, {tests} tests, {instructions} instructions, {failed} different outcomes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
