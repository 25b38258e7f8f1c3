"""nn.Module in all its uses: parameters, buffers, hooks, train and eval, containers, sharing, state dicts."""

import torch
from torch import nn
from torch.nn import functional

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def fill(model: nn.Module) -> nn.Module:
    """The same weights each time."""
    with torch.no_grad():
        for number, p in enumerate(model.parameters()):
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape) + 0.125 * number)
    return model


@program(graphs=1)
def linear_module():
    return Case(fill(nn.Linear(3, 2)), matrix(), then=[lambda: Args(matrix(4, 3))])


@program(graphs=1)
def sequential_with_activations():
    model = fill(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(-1)))
    return Case(model, matrix(), then=[lambda: Args(matrix(1, 3))])


@program
def module_called_in_function():
    model = fill(nn.Linear(3, 3))

    def f(x):
        return model(model(x)) + model.weight.sum() + model.in_features

    return Case(f, matrix())


@program
def module_with_loop_over_children():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
            self.table = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Sigmoid()})
            self.scales = nn.ParameterList([torch.ones(3), torch.ones(1) * 2])

        def forward(self, x, which):
            for i, layer in enumerate(self.layers):
                x = self.table[which](layer(x)) if i % 2 else layer(x)
            for scale in self.scales:
                x = x * scale
            return x, len(self.layers), list(self.table)

    model = fill(Net())
    return Case(model, matrix(), "a", then=[lambda: Args(matrix(), "b"), lambda: model.layers.append(nn.Identity())])


@program
def parameter_dict_and_named_iteration():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterDict({"w": nn.Parameter(torch.ones(3)), "v": nn.Parameter(torch.ones(3) * 2)})

        def forward(self, x):
            total = x
            for name, p in self.named_parameters():
                total = total + p * len(name)
            return total, [n for n, _ in self.named_modules()], sum(p.numel() for p in self.parameters())

    return Case(Net(), vector())


@program
def training_flag_switches():
    model = fill(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))
    return Case(model, matrix(), then=[model.eval, model.train])


@program(graphs=1)
def batch_norm_buffers():
    model = nn.BatchNorm1d(3)
    return Case(model, matrix(4, 3), then=[lambda: Args(matrix(5, 3) * 2), model.eval, lambda: Args(matrix(2, 3))])


@program
def buffer_written_in_forward():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))
            self.register_buffer("mean", torch.zeros(3), persistent=False)
            self.calls = 0

        def forward(self, x):
            self.steps += 1
            self.mean = self.mean * 0.5 + x
            self.calls += 1
            return x * self.steps + self.calls

    model = Net()
    return Case(model, vector(), then=[lambda: None, lambda: setattr(model, "calls", 10)])


@program
def forward_hooks():
    model = fill(nn.Linear(3, 2))
    log = []
    model.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    model.register_forward_hook(lambda m, args, out: log.append(out.shape[0]) or out + 1)

    def f(x):
        return model(x) * 2, len(log)

    def more():
        model.register_forward_hook(lambda m, args, out: -out)

    return Case(f, matrix(), observe=log, then=[more])


@program
def hook_removed_between_calls():
    model = fill(nn.Linear(3, 2))
    handle = model.register_forward_hook(lambda m, args, out: out * 10)

    def f(x):
        return model(x)

    return Case(f, matrix(), then=[handle.remove])


@program
def hook_with_kwargs_and_always_call():
    model = fill(nn.Linear(3, 2))
    seen = []
    model.register_forward_hook(lambda m, args, kwargs, out: seen.append(sorted(kwargs)), with_kwargs=True)

    def f(x):
        return model(input=x)

    return Case(f, matrix(), observe=seen)


@program(whole=False)
def backward_hook_on_module():
    model = fill(nn.Linear(3, 2))
    seen = []
    model.register_full_backward_hook(lambda m, gin, gout: seen.append(gout[0].shape))

    def f(x):
        return model(x) * 2

    return Case(f, matrix().requires_grad_(), observe=seen)


@program
def weights_changed_in_place_between_calls():
    model = fill(nn.Linear(3, 2))

    def change():
        with torch.no_grad():
            model.weight.mul_(2)

    return Case(model, matrix(), then=[change, lambda: model.weight.data.add_(1)])


@program
def parameter_replaced_between_calls():
    model = fill(nn.Linear(3, 2))

    def change():
        model.weight = nn.Parameter(torch.ones(2, 3))

    def drop():
        model.bias = None

    return Case(model, matrix(), then=[change, drop])


@program
def submodule_replaced_between_calls():
    model = fill(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))

    def change():
        model[1] = nn.Tanh()

    return Case(model, matrix(), then=[change, lambda: model.append(nn.Sigmoid())])


@program
def requires_grad_switched():
    model = fill(nn.Linear(3, 2))
    return Case(model, matrix(), then=[lambda: model.requires_grad_(False), lambda: model.bias.requires_grad_(True)])


@program
def module_dtype_changed():
    model = fill(nn.Linear(3, 2))
    return Case(model, matrix(), then=[lambda: model.double() and Args(matrix().double())])


@program
def forward_replaced_on_instance():
    model = fill(nn.Linear(3, 2))

    def change():
        model.forward = lambda x: x * 5

    return Case(model, matrix(), then=[change, lambda: model.__dict__.pop("forward")])


@program
def shared_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3, bias=False)
            self.b = nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x)), self.a.weight is self.b.weight

    return Case(fill(Tied()), matrix())


@program
def same_module_used_twice():
    layer = fill(nn.Linear(3, 3))
    return Case(nn.Sequential(layer, nn.ReLU(), layer), matrix())


@program
def module_made_inside():
    def f(x):
        layer = nn.ReLU()
        block = nn.Sequential(nn.Identity(), layer)
        return block(x - 2), len(block)

    return Case(f, vector(5))


@program
def functional_forms():
    def f(x, w):
        a = functional.linear(x, w)
        b = functional.gelu(a)
        c = functional.layer_norm(b, (2,))
        return (
            functional.softmax(c, dim=-1),
            functional.cross_entropy(a, torch.tensor([0, 1])),
            functional.pad(x, (1, 1)),
        )

    return Case(f, matrix(), matrix(2, 3).requires_grad_())


@program(graphs=1)
def small_convnet():
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2)
    )
    image = torch.arange(32, dtype=torch.float32).reshape(2, 1, 4, 4) / 32
    return Case(fill(model), image)


@program
def recurrent_module():
    model = fill(nn.GRU(3, 4, batch_first=True))
    return Case(model, matrix(2, 6).reshape(1, 4, 3), named=False)


@program
def attention_module():
    model = fill(nn.MultiheadAttention(4, 2, batch_first=True))
    x = torch.linspace(0, 1, 24).reshape(2, 3, 4)

    def f(x):
        out, weights = model(x, x, x, need_weights=True)
        return out, weights

    return Case(f, x)


@program
def transformer_encoder_layer():
    model = fill(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True))
    return Case(model, torch.linspace(0, 1, 24).reshape(2, 3, 4))


@program
def embedding_and_tied_head():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 3)

        def forward(self, ids):
            return self.table(ids) @ self.table.weight.T

    return Case(fill(Net()), torch.tensor([[0, 4], [1, 1]]))


@program
def module_attributes_written():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = {}
            self.last = None
            self.history = []

        def forward(self, x):
            self.last = x * 2
            self.history.append(self.last)
            self.cache[len(self.history)] = x
            return self.last + len(self.cache)

    model = Net()
    return Case(model, vector(), then=[lambda: None, model.cache.clear])


@program
def module_getattr_override():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 2)
            self.asked = []

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                self.__dict__["asked"].append(name)
                return getattr(self.inner, name)

        def forward(self, x):
            return self.inner(x) * self.in_features

    return Case(fill(Net()), matrix())


@program
def module_call_override():
    class Net(nn.Linear):
        def __call__(self, x, *rest):
            return super().__call__(x) + len(rest)

    model = fill(Net(3, 2))

    def f(x):
        return model(x), model(x, 1, 2)

    return Case(f, matrix())


@program
def state_dict_inside():
    model = fill(nn.Linear(3, 2))

    def f(x):
        state = model.state_dict()
        return model(x) + state["bias"], list(state)

    return Case(f, matrix())


@program(whole=False)
def load_state_dict_inside():
    model = fill(nn.Linear(3, 2))
    other = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}

    def f(x):
        before = model(x)
        model.load_state_dict(other)
        return before, model(x)

    return Case(f, matrix())


@program
def train_and_eval_called_inside():
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3))

    def f(x):
        model.eval()
        y = model(x)
        model.train(False)
        return y, model.training, model[0].training

    return Case(f, matrix())


@program
def module_missing_attribute():
    model = nn.Linear(3, 2)

    def f(x):
        try:
            return model.nothing
        except AttributeError as error:
            return x, str(error)

    return Case(f, vector())


@program
def module_introspection():
    model = fill(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))

    def f(x):
        kinds = [type(m).__name__ for m in model.modules()]
        return (
            x * sum(p.numel() for p in model.parameters()),
            kinds,
            list(model._modules),
            model.get_submodule("0") is model[0],
            str(model[1]),
        )

    return Case(f, matrix())


@program
def optimizer_step_inside():
    model = fill(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def f(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(f, matrix(), forward_only=True, then=[lambda: None])


@program
def adam_step_inside():
    model = fill(nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def f(x):
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(f, matrix(), observe=optimizer.state, forward_only=True, then=[lambda: None])


@program(break_step=13)
def gradient_clipping_and_norm():
    model = fill(nn.Linear(3, 1))

    def f(x):
        loss = model(x).square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        return loss.detach(), norm

    return Case(f, matrix(), forward_only=True)


@program
def weight_norm_parametrization():
    model = nn.utils.parametrizations.weight_norm(fill(nn.Linear(3, 2)))
    return Case(lambda x: model(x), matrix())


@program
def spectral_norm_parametrization():
    torch.manual_seed(0)
    model = nn.utils.parametrizations.spectral_norm(fill(nn.Linear(3, 2)))
    return Case(lambda x: model(x), matrix(), observe=model, then=[lambda: None, model.eval, model.train])


@program
def non_tensor_inputs_and_outputs():
    class Net(nn.Module):
        def forward(self, batch, *, scale=1, **rest):
            return {"out": batch["x"] * scale, "n": len(rest), "names": sorted(rest)}

    return Case(Net(), {"x": leaf()}, kwargs={"scale": 3, "extra": None})
