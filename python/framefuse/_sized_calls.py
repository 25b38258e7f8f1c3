"""Functions of torch where an argument has symbolic sizes: torch's own code in C++ takes sizes as plain numbers.

The operators are the ones that torch calls, in its order. What is not written here is left to torch, and so are its errors.
"""

import torch
import torch.nn.functional as F

from framefuse import _C


def install():
    for module, functions in _FUNCTIONS:
        for name, replacement in functions.items():
            original = getattr(module, name, None)
            if original is not None:
                _C.register_sized_substitute(original, replacement)


def _is_plain(*tensors):
    """Nobody else hears of the calls."""
    return torch._C._len_torch_function_stack() == 0 and all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in tensors)


def _is_float(*tensors):
    return _is_plain(*tensors) and all(t.dtype in (torch.float32, torch.float64) for t in tensors)


def _take_along_dim(input, indices, dim=None):
    plain = _is_plain(input, indices) and dim is not None and input.dim() == indices.dim() and indices.dtype == torch.int64
    if not plain or not -input.dim() <= dim < input.dim():
        return torch.take_along_dim(input, indices, dim)
    dim %= input.dim()
    others = [max(a, b) if min(a, b) == 1 else a for a, b in zip(input.shape, indices.shape)]
    places = indices.expand(*others[:dim], indices.shape[dim], *others[dim + 1 :])
    values = input.expand(*others[:dim], input.shape[dim], *others[dim + 1 :])
    return values.gather(dim, torch.where(places < 0, places + input.shape[dim], places))


def _masked_select(input, mask):
    if not _is_float(input) or not _is_plain(mask) or mask.dtype != torch.bool or input.dim() == 0 or mask.dim() == 0:
        return torch.masked_select(input, mask)
    if input.shape != mask.shape:
        input, mask = torch.broadcast_tensors(input, mask)
    return input[mask]


def _kron(input, other):
    if not _is_float(input, other) or input.dim() != other.dim():
        return torch.kron(input, other)
    sizes = [a * b for a, b in zip(input.shape, other.shape)]
    rows = input.reshape([s for size in input.shape for s in (size, 1)])
    columns = other.reshape([s for size in other.shape for s in (1, size)])
    return (rows * columns).reshape(sizes)


def _block_diag(*tensors):
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    first = tensors[0] if tensors else None
    if first is None or not _is_float(*tensors) or any(t.dim() != 2 or t.dtype != first.dtype or t.device != first.device for t in tensors):
        return torch.block_diag(*tensors)
    height, width = sum([t.shape[0] for t in tensors]), sum([t.shape[1] for t in tensors])
    result = torch.zeros(height, width, dtype=first.dtype, device=first.device)
    row = column = 0
    for t in tensors:
        result[row : row + t.shape[0], column : column + t.shape[1]].copy_(t)
        row, column = row + t.shape[0], column + t.shape[1]
    return result


def _pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    items = list(sequences) if isinstance(sequences, (list, tuple)) else []
    if not items or not _is_float(*items) or padding_side not in ("left", "right") or any(t.dim() == 0 for t in items):
        return torch.nn.utils.rnn.pad_sequence(sequences, batch_first, padding_value, padding_side)
    first = items[0]
    if any(t.shape[1:] != first.shape[1:] or t.dtype != first.dtype or t.device != first.device for t in items):
        return torch.nn.utils.rnn.pad_sequence(sequences, batch_first, padding_value, padding_side)
    longest = first.shape[0]
    for t in items[1:]:
        longest = max(longest, t.shape[0])
    start = (len(items), longest) if batch_first else (longest, len(items))
    result = torch.full((*start, *first.shape[1:]), padding_value, dtype=first.dtype, device=first.device)
    for i, t in enumerate(items):
        begin = longest - t.shape[0] if padding_side == "left" else 0
        result.select(0 if batch_first else 1, i).narrow(0, begin, t.shape[0]).copy_(t)
    return result


def _affine_grid(theta, size, align_corners=None):
    whole = _is_float(theta) and theta.is_cpu and align_corners in (True, False) and len(size) == 4 and theta.dim() == 3
    if not whole or theta.shape[0] != size[0] or theta.shape[1:] != (2, 3):
        return F.affine_grid(theta, size, align_corners)
    count, _, height, width = size
    places = torch.empty((count, height, width, 3), dtype=theta.dtype)
    places.select(-1, 0).copy_(_steps(theta, width, align_corners))
    places.select(-1, 1).copy_(_steps(theta, height, align_corners).unsqueeze(-1))
    places.select(-1, 2).fill_(1)
    grid = places.view(count, height * width, 3).bmm(theta.transpose(1, 2))
    return grid.view(count, height, width, 2)


def _steps(theta, count, align_corners):
    """From -1 to 1: the middles of the pixels, or their corners."""
    if count <= 1:
        return torch.zeros(1, dtype=theta.dtype)
    steps = torch.linspace(-1, 1, count, dtype=theta.dtype)
    return steps if align_corners else steps * (count - 1) / count


def _rms_norm(input, normalized_shape, weight=None, eps=None):
    whole = _is_float(input) and (weight is None or _is_float(weight) and weight.dtype == input.dtype)
    count = len(normalized_shape) if whole else 0
    if count == 0 or count > input.dim() or input.shape[-count:] != tuple(normalized_shape):
        return F.rms_norm(input, normalized_shape, weight, eps)
    if weight is not None and weight.shape != tuple(normalized_shape):
        return F.rms_norm(input, normalized_shape, weight, eps)
    squares = input.pow(2).mean(tuple(range(-count, 0)), keepdim=True)
    result = input.mul(squares.add(torch.finfo(input.dtype).eps if eps is None else eps).rsqrt())
    return result if weight is None else result.mul(weight)


def _stft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    plain = _is_float(input) and type(n_fft) is int and win_length in (None, n_fft) and return_complex is True and align_to_window is None
    step = n_fft // 4 if plain and hop_length is None else hop_length
    fits = plain and input.dim() in (1, 2) and step > 0 and 0 < n_fft <= input.shape[-1]
    if window is not None:
        fits = fits and _is_float(window) and window.dtype == input.dtype and window.dim() == 1 and window.shape[0] == n_fft
    if not fits:
        return torch.stft(
            input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window
        )
    lines = input.unsqueeze(0) if input.dim() == 1 else input
    if center:
        lines = F.pad(lines.unsqueeze(0), (n_fft // 2, n_fft // 2), pad_mode).squeeze(0)
    frames = lines.unfold(-1, n_fft, step)
    if window is not None:
        frames = frames.mul(window)
    norm = "ortho" if normalized else "backward"
    result = torch.fft.fft(frames, norm=norm) if onesided is False else torch.fft.rfft(frames, norm=norm)
    result = result.transpose(1, 2)
    return result.squeeze(0) if input.dim() == 1 else result


def _istft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    plain = _is_plain(input) and input.dtype in (torch.complex64, torch.complex128) and input.dim() in (2, 3) and type(n_fft) is int
    step = n_fft // 4 if plain and hop_length is None else hop_length
    fits = plain and win_length in (None, n_fft) and onesided in (None, True) and return_complex is False and 0 < step <= n_fft
    fits = fits and input.shape[-2] == n_fft // 2 + 1 != n_fft and input.shape[-1] > 0 and input.shape[0] > 0
    fits = fits and window is not None and _is_float(window) and window.dim() == 1 and window.shape[0] == n_fft
    fits = fits and window.dtype == input.dtype.to_real() and window.device == input.device
    whole = n_fft + step * (input.shape[-1] - 1) if fits else 0
    start = n_fft // 2 if center else 0
    if not fits or (length is not None and not 0 < start + length <= whole):
        return torch.istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)
    end = start + length if length is not None else whole - start
    parts = torch.fft.irfft(input.transpose(-1, -2).contiguous(), n_fft, norm="ortho" if normalized else "backward") * window
    result = torch.ops.aten.unfold_backward(parts, [*input.shape[:-2], whole], input.dim() - 2, n_fft, step)[..., start:end]
    squares = window.pow(2).expand(input.shape[-1], n_fft)
    weights = torch.ops.aten.unfold_backward(squares, [whole], 0, n_fft, step)[start:end]
    if weights.abs().min().lt(1e-11):
        raise RuntimeError("istft: the window leaves gaps")  # torch's own code runs then, and has its own words
    return result / weights


def _gates(input, hidden, weight_input, weight_hidden, bias_input, bias_hidden):
    return F.linear(input, weight_input, bias_input), F.linear(hidden, weight_hidden, bias_hidden)


def _takes_rows(input, hidden):
    return _is_float(input, hidden) and input.is_cpu and input.dim() == hidden.dim() == 2 and input.shape[0] == hidden.shape[0]


def _lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    if not _takes_rows(input, hx[0]):
        return torch._VF.lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh)
    of_input, of_hidden = _gates(input, hx[0], w_ih, w_hh, b_ih, b_hh)
    enter, forget, cell, leave = (of_hidden + of_input).chunk(4, 1)
    kept = forget.sigmoid() * hx[1] + enter.sigmoid() * cell.tanh()
    return leave.sigmoid() * kept.tanh(), kept


def _gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    if not _takes_rows(input, hx):
        return torch._VF.gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh)
    of_input, of_hidden = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    reset_input, enter_input, new_input = of_input.chunk(3, 1)
    reset_hidden, enter_hidden, new_hidden = of_hidden.chunk(3, 1)
    reset = (reset_hidden + reset_input).sigmoid()
    enter = (enter_hidden + enter_input).sigmoid()
    new = (new_input + new_hidden * reset).tanh()
    return (hx - new) * enter + new


def _simple_cell(name):
    def cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        if not _takes_rows(input, hx):
            return getattr(torch._VF, name)(input, hx, w_ih, w_hh, b_ih, b_hh)
        of_input, of_hidden = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
        total = of_hidden + of_input
        return total.tanh() if name == "rnn_tanh_cell" else total.relu()

    return cell


def _recurrent(kind):
    def network(input, hx, weights, *settings):
        states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
        whole = len(settings) == 6 and isinstance(weights, (list, tuple)) and _is_float(input, *states, *weights)
        biases, layers, dropout, train, both_ways, batch_first = settings if whole else (True, 1, 0.0, False, False, False)
        alike = whole and input.is_cpu and input.dim() == 3 and all(t.dtype == input.dtype for t in [*states, *weights])
        if not alike or (dropout != 0 and train and layers > 1) or len(weights) != (4 if biases else 2) * layers * (2 if both_ways else 1):
            return getattr(torch._VF, kind)(input, hx, weights, *settings)
        sequence = input.transpose(0, 1) if batch_first else input
        result, state, cells = torch.ops.framefuse.recurrent(kind, sequence, states, list(weights), biases, layers, both_ways, train)
        result = result.transpose(0, 1) if batch_first else result
        return (result, state, cells) if kind == "lstm" else (result, state)

    return network


_FUNCTIONS = (
    (F, {"affine_grid": _affine_grid, "rms_norm": _rms_norm}),
    (torch, {"take_along_dim": _take_along_dim, "kron": _kron, "masked_select": _masked_select, "stft": _stft, "istft": _istft, "block_diag": _block_diag}),
    (torch.Tensor, {"take_along_dim": _take_along_dim, "kron": _kron, "masked_select": _masked_select}),
    (torch.nn.utils.rnn, {"pad_sequence": _pad_sequence}),
    (torch._VF, {kind: _recurrent(kind) for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")}),
    (torch._VF, {"lstm_cell": _lstm_cell, "gru_cell": _gru_cell, **{name: _simple_cell(name) for name in ("rnn_tanh_cell", "rnn_relu_cell")}}),
)
