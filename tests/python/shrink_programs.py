"""python tests/python/shrink_programs.py START COUNT BACKEND [sized]: the random programs of these seeds that differ from
eager, each made shorter while it still differs. A child process runs them, so that one that aborts is found, too. With
`sized` they are those of sized_programs.py."""

import multiprocessing
import sys

import framefuse
import sized_programs
import tensor_programs
import torch


_MAKERS = {"plain": tensor_programs.make, "sized": sized_programs.make}


def _differences(program, backend):
    if isinstance(program, sized_programs.SizedProgram):
        return sized_programs.differences(program, backend)[0]
    return tensor_programs.differences(program, backend)


def _child(backend, kind, connection):
    torch.set_num_threads(1)
    framefuse.config.verify_metadata = True
    while True:
        try:
            program = connection.recv()
        except EOFError:
            return
        if isinstance(program, int):
            program = _MAKERS[kind](program)
        connection.send((program, _differences(program, backend)))
        framefuse.reset()


class _Runner:
    """Differences of programs, found in a child process that is started again when it dies."""

    def __init__(self, backend, kind):
        self.backend, self.kind = backend, kind
        self.start()

    def start(self):
        self.connection, theirs = multiprocessing.get_context("spawn").Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=_child, args=(self.backend, self.kind, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def __call__(self, program):
        self.connection.send(program)
        try:
            return self.connection.recv()
        except EOFError:
            self.start()
            made = _MAKERS[self.kind](program) if isinstance(program, int) else program
            return made, {"process": ("lives", "died")}


def _shorter(program):
    """Programs with one statement, one result or one call less."""
    body, returned = program.body, program.returned
    for i in range(len(body) - 1, -1, -1):
        yield program.changed(body[:i] + body[i + 1 :], returned)
    for i in range(len(returned)):
        yield program.changed(body, returned[:i] + returned[i + 1 :])
    sizes = getattr(program, "sizes", [])
    for i in range(len(sizes) - 1, -1, -1):
        if len(sizes) > 1:
            yield program.changed(body, returned, sizes[:i] + sizes[i + 1 :])


def _shrunk(run, program, kinds):
    """The shortest found that differs in the same things; a program that eager refuses differs in nothing."""
    for candidate in _shorter(program):
        try:
            candidate.function([])(*candidate.arguments(0)[0])
        except Exception:
            if "error" not in kinds:
                continue
        if kinds & {*run(candidate)[1]}:
            return _shrunk(run, candidate, kinds)
    return program


def main(start, count, backend, kind="plain"):
    run, found = _Runner(backend, kind), 0
    for seed in range(start, start + count):
        program, wrong = run(seed)
        if not wrong:
            continue
        found += 1
        print(f"seed {seed}: {', '.join(wrong)} {wrong.get('bugs', '')}")
        least = _shrunk(run, program, {*wrong})
        print(f"seed {seed}, {backend}, {least.inputs} {getattr(least, 'sizes', '')}\n{least.source()}", end="")
        for what, (a, b) in run(least)[1].items():
            print(f"  {what}: {str(a)[:300]}\n    is {str(b)[:300]}".replace("\n", " "))
        print(flush=True)
    print(f"{count} programs from {start} by {backend}: {found} differ", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *sys.argv[4:])
