"""dataclasses and enum."""

import dataclasses
import enum

from conformance.program import Args, Case, program
from conformance.sample import vector


@dataclasses.dataclass
class Config:
    width: int
    scale: float = 2.0
    names: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.area = self.width * self.scale


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: object = dataclasses.field(default=0, compare=False)


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"

    @property
    def factor(self):
        return 1 if self is Mode.FAST else 10


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


@program
def dataclass_made_and_mutated():
    def f(x):
        c = Config(3)
        d = dataclasses.replace(c, scale=1.0)
        c.names.append("n")
        c.width += 1
        return x * c.width + d.area, c, d, c == d, dataclasses.asdict(c), [fd.name for fd in dataclasses.fields(d)]

    return Case(f, vector())


@program
def dataclass_argument():
    def f(x, c):
        c.names.append(x + 1)
        return x * c.width * c.scale

    c = Config(2)
    return Case(f, vector(), c, then=[lambda: setattr(c, "scale", 9.0), lambda: Args(vector(), Config(7))])


@program
def dataclass_frozen_hash_order():
    def f(x):
        a, b = Frozen(1, x), Frozen(1, 5)
        try:
            a.a = 3
        except dataclasses.FrozenInstanceError as error:
            text = str(error)
        return a.b * 2, a == b, hash(a) == hash(b), a < Frozen(2), text, repr(b)

    return Case(f, vector())


@program
def dataclass_slots_and_kw_only():
    @dataclasses.dataclass(slots=True, kw_only=True)
    class Options:
        by: int = 2
        shift: object = None

    def f(x, o):
        o.shift = x * o.by
        return o.shift + 1, Options(by=5).by

    o = Options()
    return Case(f, vector(), o, then=[lambda: setattr(o, "by", 6)])


@program
def enum_members():
    def f(x, mode):
        if mode is Mode.FAST:
            x = x + 1
        return x * mode.factor, mode.value, Mode("slow"), Mode["FAST"], list(Mode), mode == Mode.SLOW, mode.name

    return Case(f, vector(), Mode.FAST, then=[lambda: Args(vector(), Mode.SLOW)])


@program
def int_enum_and_flags():
    def f(x, level, flags):
        return (
            x * level,
            level + 1,
            level > Level.LOW,
            bool(flags & Flags.B),
            flags | Flags.A,
            Flags.A in flags,
            isinstance(level, int),
        )

    return Case(f, vector(), Level.HIGH, Flags.A, then=[lambda: Args(vector(), Level.LOW, Flags.A | Flags.B)])


@program
def enum_as_dict_key():
    table = {Mode.FAST: 2, Mode.SLOW: 3}

    def f(x, mode):
        return x * table[mode]

    return Case(f, vector(), Mode.FAST, then=[lambda: Args(vector(), Mode.SLOW), lambda: table.update({Mode.SLOW: 30})])


@program
def enum_bad_value():
    def f(x):
        try:
            Mode("none")
        except ValueError as error:
            return x, str(error)

    return Case(f, vector())
