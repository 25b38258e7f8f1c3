"""Inputs for a model of transformers, from the names that its forward takes and from its configuration.

Numbers come from a generator of their own, so that each call gets the same. Invariant: the batch size is all that
differs between the inputs for two batch sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

TOKENS, TARGETS = 16, 9
_PLACEHOLDERS = ("image_token_id", "image_token_index", "audio_token_id", "audio_token_index")
_FIRST_TOKEN, _KEPT_FREE = 5, 20  # special tokens are at both ends of the vocabulary


def find(config: Any, names: tuple[str, ...], default: Any = None) -> Any:
    """The first of these settings that the configuration or one inside it has."""
    inner = [v for v in vars(config).values() if hasattr(v, "to_dict") and hasattr(v, "model_type")]
    for owner in [config, *inner, *(w for v in inner for w in vars(v).values() if hasattr(w, "model_type"))]:
        for name in names:
            value = getattr(owner, name, None)
            if value is not None:
                return value
    return default


class Maker:
    """Makes each input by its name; what a name means is a method of that name."""

    def __init__(self, config: Any, batch: int, training: bool, image_tokens: int = 0):
        self.config, self.batch, self.training, self.image_tokens = config, batch, training, image_tokens
        self._random = torch.Generator().manual_seed(17)

    def _uniform(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=self._random) * 2 - 1

    def _integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, max(low + 1, high), shape, generator=self._random)

    def _tokens(self, length: int) -> torch.Tensor:
        size = find(self.config, ("vocab_size", "n_vocab", "text_vocab_size"), 100)
        size = size if isinstance(size, int) else min(size)
        return self._integers(_FIRST_TOKEN, size - _KEPT_FREE, self.batch, length)

    def input_ids(self) -> torch.Tensor:
        length = max(TOKENS, self.image_tokens + 6)
        tokens = self._tokens(length)
        if self.image_tokens:
            token = find(self.config, _PLACEHOLDERS, 0)
            tokens[:, 2 : 2 + self.image_tokens] = token
        return tokens

    def attention_mask(self) -> torch.Tensor:
        length = self._length()
        mask = torch.ones(self.batch, length, dtype=torch.long)
        mask[0, length - 3 :] = 0
        return mask

    def _length(self) -> int:
        return max(TOKENS, self.image_tokens + 6)

    def mm_token_type_ids(self) -> torch.Tensor:
        return (self.input_ids() == find(self.config, _PLACEHOLDERS, -1)).long()

    def token_type_ids(self) -> torch.Tensor:
        return torch.zeros(self.batch, self._length(), dtype=torch.long)

    def decoder_input_ids(self) -> torch.Tensor:
        return self._tokens(TARGETS)

    def bbox(self) -> torch.Tensor:
        corner, size = self._integers(0, 50, self.batch, TOKENS, 2), self._integers(1, 50, self.batch, TOKENS, 2)
        return torch.cat([corner, corner + size], dim=-1)

    def _image_sides(self) -> tuple[int, int]:
        size = find(self.config, ("image_size", "img_size", "input_size"), 32)
        if isinstance(size, dict):
            size = (size.get("height", 32), size.get("width", 32))
        return (size, size) if isinstance(size, int) else (size[0], size[-1])

    def pixel_values(self) -> torch.Tensor:
        channels = find(self.config, ("num_channels", "in_channels", "num_input_channels", "in_chans"), 3)
        if not isinstance(channels, int):
            channels = 3
        frames = find(self.config, ("num_frames",))
        shape = (self.batch, *((frames,) if isinstance(frames, int) else ()), channels, *self._image_sides())
        return self._uniform(*shape)

    def pixel_values_videos(self) -> torch.Tensor:
        frames = find(self.config, ("frames_per_clip", "num_frames"), 4)
        return self._uniform(self.batch, frames, 3, *self._image_sides())

    def pixel_mask(self) -> torch.Tensor:
        return torch.ones(self.batch, *self._image_sides(), dtype=torch.long)

    def input_values(self) -> torch.Tensor:
        bins = find(self.config, ("num_mel_bins",))
        frames = find(self.config, ("max_length",))
        if bins and isinstance(frames, int) and hasattr(self.config, "frequency_stride"):
            return self._uniform(self.batch, frames, bins)
        channels = find(self.config, ("audio_channels",))
        if channels is not None:
            return self._uniform(self.batch, channels, 640)
        return self._uniform(self.batch, 1600)

    def input_features(self) -> torch.Tensor:
        bins = find(self.config, ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "n_mels"), 80)
        positions = find(self.config, ("max_source_positions",), 32)
        if find(self.config, ("feature_projection_input_dim", "input_feat_per_channel", "conv_depthwise_kernel_size")):
            return self._uniform(self.batch, 40, bins)
        return self._uniform(self.batch, bins, 2 * positions)

    def past_values(self) -> torch.Tensor:
        length = find(self.config, ("context_length",), 32)
        lags = find(self.config, ("lags_sequence",), [])
        if lags:
            return self._uniform(self.batch, length + max(lags)).abs()
        return self._uniform(self.batch, length, find(self.config, ("num_input_channels", "input_size"), 1))

    def past_observed_mask(self) -> torch.Tensor:
        return torch.ones_like(self.past_values())

    def past_time_features(self) -> torch.Tensor:
        return self._uniform(*self.past_values().shape[:2], find(self.config, ("num_time_features",), 0))

    def future_time_features(self) -> torch.Tensor:
        return self._uniform(self.batch, self.config.prediction_length, find(self.config, ("num_time_features",), 0))

    def future_values(self) -> torch.Tensor:
        return self._uniform(self.batch, self.config.prediction_length).abs()

    def visual_feats(self) -> torch.Tensor:
        return self._uniform(self.batch, 6, self.config.visual_feat_dim)

    def visual_pos(self) -> torch.Tensor:
        return self._uniform(self.batch, 6, 4)

    def labels(self) -> torch.Tensor:
        return self._tokens(self._length())

    def image_sizes(self) -> torch.Tensor:
        return torch.tensor([self._image_sides()] * self.batch)

    def pixel_attention_mask(self) -> torch.Tensor:
        return self.pixel_mask()

    def query_embeds(self) -> torch.Tensor:
        return self._uniform(self.batch, 8, self.config.hidden_size)


# Given where a forward has them, beside what it cannot do without.
_GIVEN = (
    "input_ids", "attention_mask", "pixel_values", "decoder_input_ids", "bbox", "input_values", "input_features",
    "past_values", "past_observed_mask", "past_time_features", "future_time_features", "future_values",
    "pixel_values_videos", "mm_token_type_ids", "visual_feats", "visual_pos",
)  # fmt: skip
_LABELLED = ("ForCausalLM", "LMHeadModel", "ForMaskedLM")  # labels are tokens in the places of the inputs


def make_inputs(
    model: torch.nn.Module, image_tokens: int = 0, leave_out: tuple[str, ...] = (), extra: Callable | None = None
) -> Callable[[int, bool], tuple[tuple[Any, ...], dict[str, Any]]]:
    """A function of (batch, training) that gives the call's arguments."""
    parameters = inspect.signature(model.forward).parameters
    needed = [n for n, p in parameters.items() if p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD]
    chosen = [n for n in _GIVEN if n in parameters]
    if "input_ids" not in parameters and "attention_mask" in chosen:
        chosen.remove("attention_mask")
    if "pixel_values" in chosen and "input_ids" not in chosen and "pixel_values_videos" in chosen:
        chosen.remove("pixel_values_videos")
    chosen = [n for n in dict.fromkeys(needed + chosen) if n not in leave_out and hasattr(Maker, n)]

    def inputs(batch: int, training: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
        maker = Maker(model.config, batch, training, image_tokens)
        arguments = {name: getattr(maker, name)() for name in chosen}
        if training and "labels" in parameters and type(model).__name__.endswith(_LABELLED) and "input_ids" in arguments:
            arguments["labels"] = maker.labels()
        if extra is not None:
            arguments.update(extra(maker))
        return (), {name: value for name, value in arguments.items() if value is not None}

    return inputs
