"""torch.tensor() of lists of numbers from outside, with other numbers and of other lengths in each call: as requests are."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


def calls(*requests):
    return [lambda r=r: Args(vector(3), r) for r in requests]


@program
def of_floats():
    def f(x, request):
        values = torch.tensor(request)
        return values * 2 + x.sum(), values.softmax(0), len(request)

    return Case(f, vector(3), [0.5, 1.5, 2.5], then=calls([1.0, 2.0], [3.0, 1.0, 2.0, 4.0], [0.25], [], [float("nan"), 1.0], [1e300]))


@program
def of_identifiers():
    table = matrix(12, 3)

    def f(x, request):
        ids = torch.tensor(request)
        return table[ids] * x, torch.tensor(request, dtype=torch.float64).mean()

    return Case(f, vector(3), [1, 5, 7], then=calls([2, 4], [11, 0, 1, 1, 3], [6, 6, 6], [5, 4]))


@program
def of_other_types_later():
    def f(x, request):
        values = torch.tensor(request)
        return values, values.float() + x[0]

    later = [[1, 2], [1.0, 2], [True, False], [2**40, 1], (3.0, 4.0), [[1, 2], [3, 4]], [2, True], [x for x in range(5)]]
    return Case(f, vector(3), [1, 2, 3], then=calls(*later))


@program(whole=False)
def that_torch_refuses():
    def f(x, request):
        return torch.tensor(request) * x[0]

    return Case(f, vector(3), [1, 2, 3], then=calls([1, 2], [2**70, 1], ["a", 1], [[1], [2, 3]], [None]))


@program
def of_rows():
    weights = matrix(4, 2)

    def f(x, request):
        rows = torch.tensor(request)
        return rows @ weights + x[:2], rows.shape

    def rows(count, step):
        return [[step * (i + j) for j in range(4)] for i in range(count)]

    return Case(f, vector(3), rows(3, 0.5), then=calls(rows(2, 0.25), rows(5, 1.5), rows(3, 0.75)))


@program
def each_one_its_own():
    def f(x, request):
        one, two = torch.tensor(request), torch.tensor(request)
        one.add_(1)
        return one, two, one is two

    return Case(f, vector(3), [0.5, 1.5], then=calls([1.5, 2.5], [3.5, 4.5, 5.5], [1.0, 2.0]))


@program
def as_a_type_and_on_a_device():
    def f(x, request):
        wide = torch.tensor(request, dtype=torch.float64, device=x.device)
        return wide, torch.as_tensor(request, device="cpu") * x[0], torch.tensor(request, dtype=torch.float32)

    return Case(f, vector(3), [1, 2, 3], then=calls([4, 5], [2**53 + 1, 3, 2], [1.5, 2.0]))


@program(whole=False)
def written_before_it_is_read():
    def f(x, request):
        request.append(1.0)
        first = torch.tensor(request)
        request[0] = 7.0
        return first + x[0], torch.tensor(request), request

    return Case(f, vector(3), [0.5, 1.5], then=calls([1.5, 2.5], [3.5], [4.0, 5.0]))


@program(whole=False)
def inner_lists_written_before():
    def f(x, request):
        request[1][0] = x.numel() + 0.5
        return torch.tensor(request)

    return Case(f, vector(3), [[0.5, 1.5], [1.0, 2.0]], then=calls([[1.5, 2.5], [1.0, 2.0]], [[3.5, 1.0], [0.0, 0.0]]))


class Service(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 2)
        self.pending = [1.0, 2.0]

    def forward(self, x):
        with torch.inference_mode():
            batch = torch.tensor(self.pending)[:, None]
            return self.layer(batch), batch.is_inference()


@program
def kept_by_a_module():
    torch.manual_seed(0)
    service = Service()

    def other(*numbers):
        def change():
            service.pending = list(numbers)

        return change

    def grown():
        service.pending.append(4.5)

    return Case(service, vector(3), then=[other(3.0, 4.0), other(1.0, 2.0, 3.0), grown, other(2.0, 5.0)])


@program
def numbers_read_besides():
    def f(x, request):
        scale = max(request) - min(request)
        return (torch.tensor(request) - request[0]) / scale, sum(request) * x

    return Case(f, vector(3), [0.5, 1.5, 2.5], then=calls([1.0, 2.0, 4.0], [3.0, 1.0, 2.0], [2.0, 1.0]))


@program(whole=False)
def looked_at_as_numbers():
    def f(x, request):
        values = torch.tensor(request)
        return x * 2 if values.sum() > 4 else x - 1, values.tolist()

    return Case(f, vector(3), [0.5, 1.5], then=calls([2.5, 2.0], [0.5, 1.5], [1.0, 1.0, 4.0]))
