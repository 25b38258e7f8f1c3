"""Functions that the fusion backend has rules for, of parameters, so that their backwards run too.

The judge differentiates what a program returns. Invariant: one statement at least for each rule that rewrites.
"""

from conformance.fuzz.vocabulary import Topic

SUPPORT = {
    "TRAINED": '''
class Trained:
    """Parameters, and what running statistics are kept in."""

    def __init__(self):
        self.w = leaf(4)
        self.m = matrix(2, 4).requires_grad_()
        self.mean, self.variance = torch.zeros(4), torch.ones(4)
        self.training = True


TRAINED = Trained()
''',
}

_ACTIVATIONS = (
    "celu(TRAINED.w - 1, 0.5)",
    "elu(TRAINED.w - 1)",
    "mish(TRAINED.w)",
    "hardsigmoid(TRAINED.w * {k})",
    "hardtanh(TRAINED.w, -1, {k} + 1.5)",
    "threshold(TRAINED.w, 0.5, {k})",
    "hardshrink(TRAINED.w, 0.7)",
    "softshrink(TRAINED.w, 0.7)",
    "logsigmoid(TRAINED.w)",
    "glu(TRAINED.m)",
    "glu(TRAINED.m, 0)",
    "softmax(TRAINED.m, -1) * TRAINED.w.detach()",
    "log_softmax(TRAINED.m, -1) * {k}",
    "leaky_relu(TRAINED.w, 0.2)",
    "relu6(TRAINED.w * 3)",
    "selu(TRAINED.w)",
    "gelu(TRAINED.w)",
    "silu(TRAINED.w)",
    "softplus(TRAINED.w)",
    "hardswish(TRAINED.w)",
)
_NORMS = (
    "layer_norm(TRAINED.m, (4,)) * TRAINED.m",
    "layer_norm(TRAINED.m, (4,), TRAINED.w) * TRAINED.m",
    "group_norm(TRAINED.m[..., None], 2) * TRAINED.m[..., None]",
    "group_norm(TRAINED.m[..., None], 2, TRAINED.w) * TRAINED.m[..., None]",
    "batch_norm(TRAINED.m, TRAINED.mean, TRAINED.variance, TRAINED.w, training=TRAINED.training) * TRAINED.m",
    "batch_norm(TRAINED.m, TRAINED.mean, TRAINED.variance, training=False) * TRAINED.m",
    "batch_norm(TRAINED.m, None, None, TRAINED.w, training=True) * TRAINED.m",
    "normalize(TRAINED.m, dim=-1)",
    "rms_norm(TRAINED.m, (4,), TRAINED.w)",
    "conv2d(TRAINED.m.reshape(1, 2, 2, 2), torch.ones(4, 2, 2, 2), TRAINED.w, padding=1)",
    "linear(TRAINED.m, torch.ones(3, 4), TRAINED.w[:3]).relu()",
)
_LOSSES = (
    "mse_loss(TRAINED.w, vector(4))",
    "mse_loss(TRAINED.w, vector(4), reduction='sum')",
    "smooth_l1_loss(TRAINED.w, vector(4) * {k})",
    "huber_loss(TRAINED.w, vector(4) * {k}, delta=0.5)",
    "l1_loss(TRAINED.w, vector(4))",
    "cross_entropy(TRAINED.m, torch.tensor([{k}, 1]))",
    "nll_loss(TRAINED.m, torch.tensor([{k}, 1]))",
    "binary_cross_entropy_with_logits(TRAINED.w, torch.full((4,), 0.5))",
    "binary_cross_entropy_with_logits(TRAINED.w, torch.ones(4), reduction='sum')",
    "kl_div(TRAINED.w, torch.full((4,), 0.25), reduction='sum')",
)
# Of images whose channels lie side by side.
_POOLS = (
    "max_pool2d(TRAINED.w.detach().repeat(1, 2, 2, 16).permute(0, 3, 1, 2), 2) * {k}",
    "max_pool2d((TRAINED.w.detach() * {k}).repeat(2, 3, 3, 8).permute(0, 3, 1, 2), 3, 2, 1)",
    "max_pool2d(TRAINED.w.detach().repeat(1, 4, 3, 9).permute(0, 3, 1, 2), (2, 1), (2, 1), (1, 0))",
)
_OTHERS = (
    "torch.logaddexp(TRAINED.w, vector(4))",
    "torch.xlogy(TRAINED.w, vector(4) + 1)",
    "torch.xlogy(TRAINED.m * {k}, TRAINED.m.detach().square() + 1)",
    "(lambda a: (a[:2] * a[2:]).sum())(TRAINED.w * {k})",
    "(lambda a: a[0] + a[1] * a[2] + a[3])(TRAINED.w * {k})",
    "(TRAINED.w.half() * {k}).float().view(2, 2) @ torch.ones(2, 2)",
    "(TRAINED.m.bfloat16() + {k}).float().view(-1, 2).sum(0)",
    "nn.functional.conv2d((TRAINED.m * {k}).reshape(1, 2, 2, 2), torch.ones(3, 2, 1, 1)).relu()",
    "nn.functional.conv2d(TRAINED.w.reshape(1, 1, 2, 2), torch.ones({k}, 1, 2, 2), padding=1).square()",
    "torch.fmax(TRAINED.w, vector(4) * {k})",
    "torch.fmin(TRAINED.w, vector(4) * {k})",
    "torch.maximum(TRAINED.w, vector(4) * {k})",
    "TRAINED.m.logsumexp(-1)",
    "TRAINED.m.mean()",
    "TRAINED.m.mean(0) * TRAINED.w",
    "TRAINED.m.var(-1)",
    "TRAINED.m.std(-1)",
    "torch.var_mean(TRAINED.m, -1)[{k} % 2]",
    "torch.std_mean(TRAINED.m, -1)[{k} % 2]",
    "TRAINED.w.max() * 2",
    "TRAINED.w.min() * 2",
    "TRAINED.m.amax(-1)",
    "TRAINED.m.max(-1).values * {k}",
    "TRAINED.m.min(0)[0] * TRAINED.w",
    "torch.ops.aten._batch_norm_with_update_functional(TRAINED.m.contiguous(), TRAINED.w, TRAINED.w, TRAINED.mean, TRAINED.variance, 0.1, 1e-5)[0]",
    "torch.linalg.vector_norm(TRAINED.m, dim=-1)",
    "(TRAINED.w > {k}).any() + TRAINED.w",
    "(TRAINED.m > {k}).all(0) * TRAINED.w",
    "torch._foreach_mul([TRAINED.w, TRAINED.m], 2)[1]",
    "torch._foreach_add(torch._foreach_sin([TRAINED.w, TRAINED.m]), {k})[0]",
    "torch._native_batch_norm_legit_no_training(TRAINED.m, TRAINED.w, None, TRAINED.mean, TRAINED.variance, 0.1, 1e-5)[0]",
    "TRAINED.m.prod(-1)",
    "TRAINED.w.cumsum(0)",
)

TOPICS = {
    "training": Topic(
        [[f"q = nn.functional.{text}", "r = r + q.sum()"] for text in (*_ACTIVATIONS, *_NORMS, *_LOSSES)]
        + [[f"q = {text}", "r = r + q.sum()"] for text in _OTHERS]
        + [
            ["TRAINED.w.grad = None", "(nn.functional.mish(TRAINED.w) * {k}).sum().backward()", "r = r + TRAINED.w.grad.sum()"],
            ["q = nn.functional.cross_entropy(TRAINED.m * {k}, torch.tensor([0, 1]))", "q.backward()", "r = r + TRAINED.m.grad.sum()"],
            ["g, = torch.autograd.grad(TRAINED.m.softmax(-1).square().sum(), TRAINED.m)", "r = r + g.sum()"],
            ["with torch.no_grad():", "    TRAINED.w -= 0.5 * torch.ones(4)", "r = r + TRAINED.w.sum()"],
            ["opt = torch.optim.SGD([TRAINED.w], lr=0.5)", "TRAINED.w.square().sum().backward()", "opt.step()", "opt.zero_grad()", "r = r + TRAINED.w.sum()"],
        ],
        [
            "TRAINED.training = not TRAINED.training",
            "TRAINED.w = leaf(4)",
            "TRAINED.w.requires_grad_({k} > 1)",
            "TRAINED.m = matrix(4, 2).t().requires_grad_()",
            "TRAINED.m = matrix(2, 4).double().requires_grad_()",
            "TRAINED.m = (matrix(2, 4).requires_grad_() * 2)",
            "TRAINED.w.grad = None",
            "TRAINED.mean.add_({k})",
        ],
        weight=18,
    ),
    "pools of images": Topic(
        [[f"q = nn.functional.{text}", "r = r + q.sum()"] for text in _POOLS],
        ["TRAINED.w = leaf(4)", "TRAINED.w = leaf(4).double()", "TRAINED.training = not TRAINED.training"],
        weight=3,
    ),
}
