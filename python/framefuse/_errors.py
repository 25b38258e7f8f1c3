"""The exceptions that framefuse raises of its own; errors of the compiled code are the code's own."""


class Unsupported(RuntimeError):
    """Raised where framefuse cannot do what was asked for: a graph break under `fullgraph=True`, or a feature not built yet.

    Attributes:
        reason: the graph break's `BreakReason`-like text, or None where no break was involved.
        compile_id: the compilation it comes from, as logs and reports name it ("2/1"); empty where there was none.
    """

    def __init__(self, message: str = "", reason: "str | None" = None, compile_id: str = ""):
        super().__init__(message)
        self.reason = reason
        self.compile_id = compile_id


class BackendError(RuntimeError):
    """Raised when a backend fails on a graph. `__cause__` is the backend's own exception, `backend` its name.

    `compile_id` names the compilation, as logs and reports do ("2/1").
    """

    compile_id: str = ""

    def __init__(self, message: str = "", backend: str = ""):
        super().__init__(message)
        self.backend = backend


class InternalError(RuntimeError):
    """A bug of framefuse, raised only with `config.raise_on_bug`; otherwise it is logged once and the code runs in Python."""
