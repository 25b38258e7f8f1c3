"""Functions of torch whose C++ code reads memory above the operators: in captured code they are said in others' words.

Invariant: arguments that are not just as expected go to torch's own function, and to its own error.
"""

import torch
import torch.nn.functional as F


def _tells_places(value):
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dtype == torch.int64 and value.dim() <= 1


def _split(original):
    """tensor_split: places that a tensor tells."""

    def tensor_split(*args, **kwargs):
        if len(args) > 1 and _tells_places(args[1]):
            return original(args[0], args[1].tolist(), *args[2:], **kwargs)
        if _tells_places(kwargs.get("tensor_indices_or_sections")):
            places = kwargs.pop("tensor_indices_or_sections")
            kwargs["indices" if places.dim() == 1 else "sections"] = places.tolist()
        return original(*args, **kwargs)

    return tensor_split


def _lengths(value):
    whole = isinstance(value, torch.Tensor) and value.dim() == 1 and value.dtype in (torch.int32, torch.int64, torch.uint8)
    return value.tolist() if whole and value.device.type == "cpu" else value


def _are_numbers(lengths):
    return isinstance(lengths, (list, tuple)) and all(type(n) is int for n in lengths)


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """torch.ctc_loss: lengths that tensors tell, where the kernel takes numbers, and the mean, which makes a tensor of them."""
    plain = all(isinstance(t, torch.Tensor) and t.device.type == "cpu" for t in (log_probs, targets))
    one, two = (_lengths(input_lengths), _lengths(target_lengths)) if plain else (input_lengths, target_lengths)
    if not plain or not _are_numbers(one) or not _are_numbers(two) or reduction not in (0, 1, 2):
        return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
    if reduction != 1:
        return torch.ctc_loss(log_probs, targets, one, two, blank, reduction, zero_infinity)
    losses = torch.ctc_loss(log_probs, targets, one, two, blank, 0, zero_infinity)
    return (losses / torch.tensor(two, dtype=losses.dtype).clamp_min(1)).mean()


def _max_pool1d(input, *others, **named):
    """torch.max_pool1d, which looks at sizes, and has a kernel of its own where no gradient is wanted."""
    plain = type(input) in (torch.Tensor, torch.nn.Parameter) and torch._C._len_torch_function_stack() == 0
    if not plain or not input.is_floating_point():
        return torch.max_pool1d(input, *others, **named)
    result = torch.max_pool1d_with_indices(input, *others, **named)[0]
    if input.device.type != "cpu" or (input.requires_grad and torch.is_grad_enabled()):
        return result
    return result.clone(memory_format=torch.contiguous_format)


def _functional_max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Torch's own runs as one call: nobody would see that it calls the function above."""
    if return_indices is not False or type(input) not in (torch.Tensor, torch.nn.Parameter) or torch._C._len_torch_function_stack() > 0:
        return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return torch.max_pool1d(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)


SUBSTITUTES = (
    (torch.tensor_split, _split(torch.tensor_split)),
    (torch.Tensor.tensor_split, _split(torch.Tensor.tensor_split)),
    (torch.ctc_loss, _ctc_loss),
    (torch.max_pool1d, _max_pool1d),
    (F.max_pool1d, _functional_max_pool1d),
)
