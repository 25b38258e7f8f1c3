"""What the report shows of a program at work: how fast kernels ran, and how much memory was in use. Knows nothing of HTML.

Invariant: a kernel's figures are those of its last event, which counts from the beginning.
"""

import dataclasses

from framefuse._trace import Event

WIDTH, HEIGHT = 640.0, 120.0  # of the drawing
_MOST_POINTS = 400


@dataclasses.dataclass
class Kernel:
    """The kernels of one step of a graph, as they ran on the CPU."""

    graph: str
    name: str
    runs: int
    seconds: float  # of one run
    bytes: float  # that one run read and wrote

    @property
    def rate(self) -> str:
        """Achieved bytes a second."""
        return f"{self.bytes / self.seconds / 1e9:.2f} GB/s" if self.seconds else ""


@dataclasses.dataclass
class Memory:
    """Bytes in use over the time of the process."""

    title: str
    points: str  # of the drawing
    most: int
    seconds: float


def kernels_by_compile(events: "list[Event]") -> "dict[str, list[Kernel]]":
    """Of each compilation its kernels, those that took the most time first."""
    last = {(event.get("id", ""), event["graph"], event["step"]): event for event in events}
    found: "dict[str, list[Event]]" = {}
    for (id, _, _), event in last.items():
        found.setdefault(id, []).append(event)
    return {id: [_kernel(event) for event in sorted(all, key=lambda event: -event["seconds"])] for id, all in found.items()}


def _kernel(event: Event) -> Kernel:
    runs = event["runs"]
    return Kernel(event["graph"].rpartition(".")[2], event["kernel"], runs, event["seconds"] / runs, event["bytes"] / runs)


def memory_of(events: "list[Event]") -> "list[Memory]":
    """A drawing for the process, and one for each GPU; none where less than two moments are known."""
    series: "dict[str, list[tuple[float, int]]]" = {}
    for event in events:
        series.setdefault("of the process", []).append((event["time"], event["resident"]))
        if "device" in event:
            series.setdefault(f"allocated on {event['device']}", []).append((event["time"], event["allocated"]))
    return [_drawn(title, moments) for title, moments in series.items() if len(moments) > 1]


def _drawn(title, moments):
    first, last = moments[0][0], moments[-1][0]
    # The largest of those that fall together, so that no peak is lost.
    highest: "dict[int, int]" = {}
    for time, held in moments:
        at = round((time - first) / max(last - first, 1e-9) * _MOST_POINTS)
        highest[at] = max(held, highest.get(at, 0))
    most = max(highest.values())
    points = " ".join(f"{at / _MOST_POINTS * WIDTH:.1f},{HEIGHT - held / max(most, 1) * HEIGHT:.1f}" for at, held in sorted(highest.items()))
    return Memory(title, points, most, last - first)
