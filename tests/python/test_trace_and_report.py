"""The trace and the page made of it: what happened is in both, text of the program does no harm, off it costs nothing."""

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import framefuse
import pytest
import torch
from framefuse import _report_graph, _report_page, _report_work, _trace, report

ATTACK = "<script>alert('x')</script>"
VOID = {"meta", "br", "hr", "img", "input", "link"}
OPTIONAL_END = {"th", "td", "tr", "li", "p"}

PROGRAM = f"""
import torch, framefuse

@framefuse.compile
def step(x, n, text="{ATTACK}"):
    y = torch.sin(x) * n
    print(text)
    return (y + 1).sum()

for n in (1.5, 2.5):
    for size in (2, 3):
        step(torch.ones(size), n)
step(torch.ones(2), "a" and 4, text="{ATTACK}<b>")
"""


class Page(html.parser.HTMLParser):
    """Checks the balance of the tags and collects what is on the page."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.links, self.text = [], [], set(), [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        for name in ("src", "href", "srcset", "data", "action"):
            if name in given:
                self.links.append(given[name])
        if "id" in given:
            assert given["id"] not in self.ids
            self.ids.add(given["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open[-1] != tag and self.open[-1] in OPTIONAL_END:
            self.open.pop()
        assert self.open and self.open[-1] == tag, (tag, self.open, self.getpos())
        self.open.pop()

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "FRAMEFUSE_TRACE": str(folder / "traces")}
    result = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "[framefuse" not in result.stderr  # the logs that the trace has are not the user's
    return folder / "traces"


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "framefuse.report", *map(str, arguments)], capture_output=True, text=True, timeout=300)


@pytest.mark.compiles_nothing("a process of its own has written the trace")
def test_the_trace_has_what_happened(folder):
    (events,) = _trace.read(folder)
    kinds = {event["event"] for event in events}
    assert {"process", "source", "compile", "graph_break", "log"} <= kinds
    assert events[0]["event"] == "process" and events[0]["framefuse"] == framefuse.__version__
    assert all(isinstance(event["time"], float) and isinstance(event["thread"], int) for event in events)
    first = next(event for event in events if event["event"] == "compile")
    assert first["function"] == "step" and first["outcome"] == "graph" and first["id"] == "0/0" and first["name"] == ""
    assert {call["call"] for call in first["calls"]} >= {"torch.sin"}
    again = [event for event in events if event["event"] == "compile" and event["recompiles"]]
    assert again and all(event["recompiles"][0]["text"] and event["stack"] for event in again)
    assert "step(torch.ones(size), n)" in [place["source"] for place in again[0]["stack"]]
    broke = next(event for event in events if event["event"] == "graph_break")
    assert broke["place"]["source"] == "print(text)" and broke["place"]["expression"] == "print(text)"
    assert broke["callers"][-1]["function"] == "<module>"
    artifacts = {event["artifact"] for event in events if event["event"] == "log"}
    assert {"fusion", "output_code"} <= artifacts


@pytest.mark.compiles_nothing("a process of its own has written the trace")
def test_the_trace_says_what_entries_were_used_for(folder):
    (events,) = _trace.read(folder)
    uses = {event["id"]: event for event in events if event["event"] == "use"}
    made = [event["id"] for event in events if event["event"] == "compile" and event["outcome"] in ("graph", "no graph")]
    assert set(uses) <= set(made) and uses["0/0"]["runs"] >= 1 and uses["0/0"]["breaks"] == uses["0/0"]["runs"]
    assert all(use["checks"] >= use["hits"] and use["runs"] > 0 < use["run_seconds"] for use in uses.values())


# What comes behind it goes on in `step`, in the second piece.
BROKEN_STEP = """
import time, torch, framefuse

@framefuse.compile
def step(x):
    y = x.sin()
    framefuse.graph_break()
    y = y.cos()"""


@pytest.mark.compiles_nothing("compiles in a process of its own")
def test_what_costs_more_time_is_fixed_first(fresh_python, tmp_path):
    program = """
    time.sleep(0.05)
    return y + 1

for _ in range(5):
    step(torch.ones(3))
"""
    fresh_python(BROKEN_STEP + program, FRAMEFUSE_TRACE=str(tmp_path))
    text = command(tmp_path, "--text").stdout
    first, second = re.findall(r"Graph break.*, passed 5 times: ([0-9.]+) ms outside of graphs.*\n +(.*)", text)
    assert "time.sleep" in first[1] and float(first[0]) > 240 and "graph_break" in second[1] and float(second[0]) < float(first[0])
    assert command(tmp_path).returncode == 0
    page = Page((tmp_path / "report.html").read_text())
    assert re.search(r"ran 5 times, \d+ µs each; guards held 4 of 4 times", page.text) and "passed 5 times" in page.text


@pytest.mark.compiles_nothing("compiles in a process of its own")
def test_kernels_as_they_ran_and_memory(fresh_python, tmp_path):
    program = """
import time, torch, framefuse

@framefuse.compile
def step(x, weight):
    return (torch.sin(x) * 2 + 1).mm(weight).exp()

kept = []
for _ in range(9):
    kept.append(step(torch.ones(1000, 1000), torch.zeros(1000, 4)))
    kept.append(torch.ones(2_000_000))
    time.sleep(0.006)
"""
    fresh_python(program, FRAMEFUSE_TRACE=str(tmp_path))
    (events,) = _trace.read(tmp_path)
    wide = [event for event in events if event["event"] == "kernel" and "sin, mul, add" in event["kernel"]]
    assert [event["runs"] for event in wide] == [1, 2, 4, 8] and {event["id"] for event in wide} == {"0/0"}
    assert [event["bytes"] for event in wide] == [runs * 8_000_000 for runs in (1, 2, 4, 8)]  # a million elements, read and written
    seconds = [event["seconds"] for event in wide]
    assert seconds == sorted(seconds) and 0 < seconds[0]
    resident = [event["resident"] for event in events if event["event"] == "memory"]
    assert len(resident) >= 5 and resident[-1] - resident[0] > 30_000_000 and not any("device" in event for event in events)
    assert command(tmp_path).returncode == 0
    page = Page((tmp_path / "report.html").read_text())
    rate = 8 * 8_000_000 / seconds[-1] / 1e9
    assert f"{rate:.2f} GB/s" in page.text and "Kernels as they ran" in page.text
    assert "of the process: at most " in page.text and "polyline" in page.tags


@pytest.mark.compiles_nothing("about events that are not there")
def test_memory_of_a_gpu_and_peaks():
    moments = [{"event": "memory", "time": 1.0 + n / 10_000, "resident": 5 if n != 777 else 50, "allocated": n, "device": "cuda:0"} for n in range(2000)]
    process, device = _report_work.memory_of(moments)
    assert (process.title, process.most) == ("of the process", 50) and (device.title, device.most) == ("allocated on cuda:0", 1999)
    points = [tuple(map(float, point.split(","))) for point in process.points.split()]
    assert min(y for _, y in points) == 0 and len(points) <= 401 and points == sorted(points, key=lambda point: point[0])
    assert _report_work.memory_of(moments[:1]) == []


@pytest.mark.compiles_nothing("compiles in a process of its own")
def test_recompiles_of_pieces_are_one_thing_to_fix(tmp_path):
    program = """
    framefuse.graph_break()
    return y + 1

def run(x):
    return step(x)

for n in (3, 4):
    run(torch.ones(n))
"""
    (tmp_path / "program.py").write_text(BROKEN_STEP + program)
    environment = {**os.environ, "FRAMEFUSE_TRACE": str(tmp_path)}
    subprocess.run([sys.executable, tmp_path / "program.py"], env=environment, check=True, timeout=300)
    text = command(tmp_path, "--text").stdout
    assert re.search(r"Compiled again 3 times in 3 pieces, \d+ ms: .* in step\n +called from .* in run: return step\(x\)\n", text)
    assert text.count("Compiled again") == 1 and "expected 3, actual 4" in text and "2 more of that kind" in text


@pytest.mark.compiles_nothing("a process of its own has written the trace")
def test_docs_name_every_member(folder):
    text = (pathlib.Path(__file__).parents[2] / "docs" / "trace.md").read_text()
    (events,) = _trace.read(folder)
    for event in events:
        assert f"`{event['event']}`" in text
        for name in event:
            assert f"`{name}`" in text, (event["event"], name)


@pytest.mark.compiles_nothing("a process of its own has written the trace")
def test_the_page(folder):
    result = command(folder)
    assert (result.returncode, result.stdout.strip()) == (0, str(folder / "report.html"))
    text = (folder / "report.html").read_text()
    page = Page(text)
    assert "script" not in page.tags and "<script" not in text
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links), page.links
    assert ATTACK in page.text
    for part in ("Fix this first", "builtins.print", "print outside", "torch.sin", "Kernels", "Fusion groups", "dim 0", "called from"):
        assert part in page.text, part
    (events,) = _trace.read(folder)
    graphs = [event for event in events if event["event"] == "compile" and event["outcome"] == "graph"]
    assert {f"p0g{number}" for number in range(len(graphs))} <= page.ids and len(graphs) > 2
    assert "p0b0" in page.ids
    for event in graphs:
        assert f"[{event['id']}]" in page.text


@pytest.mark.compiles_nothing("a process of its own has written the trace")
def test_the_text_and_errors_of_the_command(folder, tmp_path):
    result = command(folder, "--text")
    assert result.returncode == 0 and re.search(r"\d\. Graph break.*program.py:7 in step\n +print\(text\)\n", result.stdout)
    assert re.search(r"Compiled again \d times?, \d+ ms: ", result.stdout)
    assert command(tmp_path).returncode == 2
    (tmp_path / "x.jsonl").write_text("[]\n{}\n")
    assert "x.jsonl:1 is no line of a trace" in command(tmp_path).stderr
    page = tmp_path / "page.html"
    assert command(folder, "-o", page).returncode == 0 and page.exists()


@pytest.mark.compiles_nothing("reads what a process that was ended has left")
def test_a_line_that_was_cut_off(folder, tmp_path):
    (file,) = folder.glob("*.jsonl")
    (tmp_path / "a.jsonl").write_text(file.read_text()[:-30])
    assert len(_trace.read(tmp_path)[0]) == len(_trace.read(folder)[0]) - 1


def test_the_setting(tmp_path):
    def f(x):
        return x + 1

    with framefuse.config.patch(trace_dir=str(tmp_path / "new" / "folder")):
        framefuse.compile(f, backend="aten")(torch.ones(2))
    framefuse.compile(f, backend="aten", name="other")(torch.ones(3))
    (events,) = _trace.read(tmp_path / "new" / "folder")
    assert [event["event"] for event in events if event["event"] in ("process", "compile")] == ["process", "compile"]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with framefuse.capture_logs("bugs") as records, framefuse.config.patch(trace_dir=str(tmp_path / "file")):
        assert framefuse.compile(lambda x: x + 1, backend="aten")(torch.ones(2)).tolist() == [2, 2]
    assert ["the trace cannot be written to" in text for _, text in records] == [True]


@pytest.mark.compiles_nothing("compiles in the processes that it makes")
def test_a_file_for_each_process(fresh_python, tmp_path):
    program = """
import os, torch, framefuse
f = framefuse.compile(lambda x: x + 1, backend="aten")
f(torch.ones(2))
if os.fork() == 0:
    f(torch.ones(2, 2))
    os._exit(0)
os.wait()
"""
    fresh_python(program, FRAMEFUSE_TRACE=str(tmp_path / "traces"))
    processes = _trace.read(tmp_path / "traces")
    assert len({events[0]["pid"] for events in processes}) == 2
    assert [sum(event["event"] == "compile" for event in events) for events in processes] == [1, 1]
    assert command(tmp_path / "traces").returncode == 0
    page = Page((tmp_path / "traces" / "report.html").read_text())
    assert {"p0g0", "p1g0"} <= page.ids and {"#p0", "#p1"} <= set(page.links)


def test_what_runs_as_python_has_its_callers():
    async def generates(x):
        yield x + 1

    framefuse.reset()
    report = framefuse.explain(generates)(torch.ones(2))
    fallbacks = [event for event in report.events if event["event"] == "fallback"]
    assert [event["kind"] for event in fallbacks] == ["async_generator"]
    assert fallbacks[0]["stack"][-1]["function"] == "test_what_runs_as_python_has_its_callers"
    page = Page(report.html())
    assert "generator function" in page.text and "called from" in page.text


def test_the_page_shows_the_programs_own_source_and_no_addresses(tmp_path):
    optimizer = torch.optim.Adam([torch.zeros(3, requires_grad=True)])
    weight = optimizer.param_groups[0]["params"][0]

    @framefuse.compile
    def step(x):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()

    with framefuse.config.patch(trace_dir=str(tmp_path)):
        for _ in range(3):
            step(torch.ones(3))
    text = _report_page.page(_trace.read(tmp_path), "steps")
    assert "optimizer.step()" in text and "def step(x)" in text
    assert f"<h3>{pathlib.Path(framefuse.__file__).parent}" not in text
    assert not re.search(r"<[\w. ]+ at 0x[0-9a-f]+", text.replace("&lt;", "<"))


def test_off_it_makes_no_logs():
    mask = framefuse._C.get_log_mask()
    with framefuse.capture_logs() as records:
        framefuse.explain(lambda x: x + 1, backend="fuse")(torch.ones(2))
        framefuse.compile(lambda x: x + 1, backend="fuse")(torch.ones(2))
    assert records == [] and framefuse._C.get_log_mask() == mask


def test_explain_writes_the_page(tmp_path):
    def f(x):
        text = "</pre><script>"
        y = x.sin()
        framefuse.graph_break()
        return y.cos(), text

    explained = framefuse.explain(f, backend="fuse")(torch.ones(4))
    path = tmp_path / "page.html"
    assert explained.html(path) == path.read_text(encoding="utf-8")
    page = Page(path.read_text(encoding="utf-8"))
    assert "script" not in page.tags and 'text = "</pre><script>"' in page.text
    for part in ("graph_break() was called", "remove the call", "Tensor.sin", "Tensor.cos", "argument x", "aten.sin"):
        assert part in page.text, part
    assert {"p0g0", "p0g1", "p0b0"} <= page.ids and path.read_text(encoding="utf-8").count('aria-label="the graph"') == 2
    assert json.dumps(explained.events) and "events" not in repr(explained)


def test_a_page_that_would_be_too_long(monkeypatch):
    def f(x):
        y = x.sin()
        framefuse.graph_break()
        return y.cos()

    monkeypatch.setattr("framefuse._report_model.MOST_GRAPHS", 1)
    monkeypatch.setattr("framefuse._report_model.MOST_COMPILES", 1)
    page = Page(framefuse.explain(f)(torch.ones(2)).html())
    assert "p0g0" in page.ids and "p0g1" not in page.ids and page.text.count("1 more are left out") == 2
    assert all(link[1:] in page.ids for link in page.links)


def test_a_page_without_anything():
    page = Page(framefuse.explain(lambda x: x)(3).html())
    assert "Nothing: no breaks" in page.text


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.compiles_nothing("a process of its own has written the trace")
@pytest.mark.parametrize("width", [400, 1200])
def test_in_chromium(folder, tmp_path, width):
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    page = tmp_path / "page.html"
    assert report.main([str(folder), "-o", str(page)]) == 0
    # In a frame of that width, since headless Chromium's window is never narrower than 500 pixels.
    probe = tmp_path / "probe.html"
    probe.write_text(
        f'<iframe id="f" src="page.html" style="width: {width}px; height: 3000px; border: 0"></iframe><pre id="out"></pre>'
        "<script>onload = () => { const d = document.getElementById('f').contentDocument;"
        " document.getElementById('out').textContent = JSON.stringify([d.documentElement.scrollWidth, d.querySelectorAll('h2').length]) }</script>"
    )
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}"]
    result = subprocess.run([*command, "--dump-dom", probe.as_uri()], capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="out">\[(\d+),(\d+)\]', result.stdout)
    assert found, result.stdout[-500:] + result.stderr[-2000:]
    assert int(found[1]) <= width and int(found[2]) == page.read_text().count("<h2") >= 5


# ---------------------------------------------------------------- the doctor


@pytest.mark.compiles_nothing("runs a program of its own")
def test_the_doctor(folder, tmp_path):
    program = folder.parent / "program.py"
    page = tmp_path / "page.html"
    run = [sys.executable, "-m", "framefuse.doctor", "-o", page, program]
    result = subprocess.run([*map(str, run)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert ATTACK in result.stdout  # what the program prints
    assert re.search(r"process \d+: \d+ graphs, 1 places of graph breaks, ", result.stdout)
    assert re.search(r"\d\. Graph break.*program.py:7 in step\n", result.stdout) and "fix: print outside" in result.stdout
    assert "p0g0" in Page(page.read_text(encoding="utf-8")).ids


@pytest.mark.compiles_nothing("runs a program of its own")
def test_the_doctor_of_a_program_that_fails_or_compiles_nothing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys; sys.exit(int(sys.argv[1]))")
    result = subprocess.run([sys.executable, "-m", "framefuse.doctor", str(program), "3"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 3 and "nothing was compiled" in result.stderr


# ---------------------------------------------------------------- the drawing


@pytest.mark.compiles_nothing("about a text")
def test_a_graph_is_drawn():
    text = """graph "graph"
input %0: f32[2, 3] argument
input %1: f32[]{grad} argument
constant %2: i64[]{wrapped} = [3]
%3: f32[2, 3] = aten.mul.Tensor(%0, %2)  # a.py:1 in f: x % 3
%4: f32[2, 3], %5: i64[2] = aten.max.dim(%3, 1)  # a.py:2
%6: f32[2, 3] = aten.add.Tensor(%4, %1, alpha=1)
output %6 user
"""
    drawing = _report_graph.draw(text)
    labels = [box.label for box in drawing.boxes]
    assert labels == ["%0 f32[2, 3]", "%1 f32[]", "mul.Tensor f32[2, 3]", "max.dim f32[2, 3]", "add.Tensor f32[2, 3]"]
    x, n, mul, largest, add = drawing.boxes
    assert (mul.reads, largest.reads, add.reads) == ([x], [mul], [largest, n]) and add.kind == "result"
    assert [box.row for box in drawing.boxes] == [0, 2, 1, 2, 3] and len(drawing.lines) == 4
    for box in drawing.boxes:
        assert 0 < box.x - box.width / 2 and box.x + box.width / 2 < drawing.width and 0 < box.y < drawing.height


@pytest.mark.compiles_nothing("about a text")
def test_what_is_not_drawn():
    assert _report_graph.draw("") is None
    nodes = "\n".join(f"%{i}: f32[2] = aten.sin(%{i - 1})" for i in range(1, 100))
    assert _report_graph.draw(f"input %0: f32[2] argument\n{nodes}\n") is None
