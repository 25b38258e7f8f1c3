"""The models of graphs_on_device.py and start.py, and one pass through them. Nothing here imports framefuse."""

import inspect

import models
import torch


class Models:
    """name → (model, its inputs); `small` is for a look at whether it runs."""

    def __init__(self, device, small, train):
        self.device, self.small, self.train = device, small, train
        self.dtype = torch.bfloat16

    def own(self, model, x):
        name, = inspect.signature(model.forward).parameters
        return model.train(self.train).to(self.device), {name: x.to(self.device)}

    def small_gpt(self):
        return self.own(models.GPT(*((2, 48, 4) if self.small else (6, 512, 8))), torch.randint(0, 256, (4, 64)))

    def small_llama(self):
        return self.own(models.Llama(*((2, 48, 4, 2) if self.small else (6, 512, 8, 4))), torch.randint(0, 256, (4, 64)))

    def small_encoder(self):
        width = 48 if self.small else 512
        return self.own(models.Encoder(2 if self.small else 6, width, 8), torch.randn(4, 64, width))

    def resnet18(self):
        return self.own(models.ResNet18(), torch.randn(2 if self.small else 8, 3, 64, 64))

    def tokens(self, vocabulary):
        return torch.randint(0, vocabulary, (2, 16) if self.small else (8, 512), device=self.device)

    def transformer(self, model, config, **changes):
        import transformers

        made = getattr(transformers, config)(**changes, **({"num_hidden_layers": 2} if self.small else {}))
        made._attn_implementation = "sdpa"
        return getattr(transformers, model)(made).eval().to(self.device, self.dtype), made.vocab_size

    def llama(self):
        sizes = {"num_hidden_layers": 8, "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 4}
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4} if self.small else sizes
        model, vocabulary = self.transformer("LlamaModel", "LlamaConfig", use_cache=False, **sizes)
        return model, {"input_ids": self.tokens(vocabulary)}

    def gpt2(self):
        model, vocabulary = self.transformer("GPT2Model", "GPT2Config", use_cache=False, **({"n_embd": 48} if self.small else {}))
        return model, {"input_ids": self.tokens(vocabulary)}

    def bert(self):
        sizes = {"hidden_size": 48, "intermediate_size": 96} if self.small else {}
        model, vocabulary = self.transformer("BertModel", "BertConfig", **sizes)
        return model, {"input_ids": self.tokens(vocabulary)}

    def t5(self):
        model, vocabulary = self.transformer("T5Model", "T5Config", use_cache=False)  # its defaults are t5-small's
        return model, {"input_ids": self.tokens(vocabulary), "decoder_input_ids": self.tokens(vocabulary)}

    def densenet121(self):
        try:
            from torchvision.models import densenet121 as make
        except ImportError:
            make = models.DenseNet121
        shape = (2, 3, 64, 64) if self.small else (16, 3, 128, 128)
        return make().eval().to(self.device), {"x": torch.randn(shape, device=self.device)}


NAMES = ("llama", "gpt2", "bert", "t5", "densenet121", "small_gpt", "small_llama", "small_encoder", "resnet18")


def results_of(output):
    """The floating-point tensors of what a model returns."""
    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    values = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else ()
    return [t for value in values for t in results_of(value)]


def passes(model, call, inputs, train):
    """One forward pass, and its results; or one step, and its loss and gradients."""
    if not train:
        with torch.no_grad():
            return results_of(call(**inputs))
    model.zero_grad(set_to_none=True)
    loss = sum(t.to(torch.promote_types(t.dtype, torch.float32)).square().mean() for t in results_of(call(**inputs)))
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def error(outputs, exact):
    """The largest of the results' distances from fp64, each as a part of its own size, or of a thousandth of the largest one's: some
    gradients are 0."""
    if [t.shape for t in outputs] != [t.shape for t in exact]:
        return float("inf")
    sizes = [x.norm() for x in exact]
    least = 1e-3 * max(sizes).clamp_min(1e-30)
    return max(((t.double() - x).norm() / size.clamp_min(least)).item() for t, x, size in zip(outputs, exact, sizes))


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()
