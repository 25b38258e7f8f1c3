"""The architectures of transformers: one head each, with a shrunk configuration.

Rules come first (shrink, inputs); the tables below are for what no rule finds. Invariant: nothing here knows a
compiler.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from zoo.architectures import CONFIGS, INPUTS
from zoo.inputs import make_inputs
from zoo.shrink import HIDDEN, shrink
from zoo.zoo_model import Built, Skip, ZooModel, check_size, count_parameters

# The heads in the order in which an architecture's is looked for.
_HEADS = (
    "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "IMAGE_TEXT_TO_TEXT", "VISION_2_SEQ", "CTC", "MASKED_LM", "CAUSAL_LM",
    "IMAGE_CLASSIFICATION", "AUDIO_CLASSIFICATION", "VIDEO_CLASSIFICATION", "SEMANTIC_SEGMENTATION",
    "OBJECT_DETECTION", "UNIVERSAL_SEGMENTATION", "DEPTH_ESTIMATION", "TIME_SERIES_PREDICTION",
    "TEXT_TO_SPECTROGRAM", "TEXT_TO_WAVEFORM", "KEYPOINT_DETECTION", "KEYPOINT_MATCHING", "MASK_GENERATION",
    "IMAGE_TO_IMAGE", "QUESTION_ANSWERING",
)  # fmt: skip
# The number of image tokens is what the model says it should be.
_BATCH = 2
_FEATURES = re.compile(r"tokens:? (\d+),?.*features:? (?:torch\.Size\(\[)?(\d+)", re.DOTALL)


def all_models() -> list[ZooModel]:
    import transformers.modeling_utils  # here, so that not every child imports it
    import transformers.models.auto.modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    classes = _class_names()
    models = []
    for model_type in CONFIG_MAPPING_NAMES:
        name = classes.get(model_type)
        if name is not None:
            models.append(ZooModel("transformers", f"{model_type}:{name}", lambda t=model_type, n=name: build(t, n)))
    return models


def _class_names() -> dict[str, str]:
    """The class to run for each architecture: the first head that it has, else the base model."""
    from transformers.models.auto import modeling_auto

    tables = [getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES", {}) for head in _HEADS]
    tables.append(modeling_auto.MODEL_MAPPING_NAMES)
    found: dict[str, str] = {}
    for table in tables:
        for model_type, name in table.items():
            found.setdefault(model_type, name if isinstance(name, str) else name[0])
    return found


def make_config(model_type: str) -> Any:
    import transformers

    config_class = transformers.CONFIG_MAPPING[model_type]
    extra = CONFIGS.get(model_type, {})
    if callable(extra):
        extra = extra(transformers, make_config)
    if not isinstance(extra, dict):
        return extra
    config = shrink(config_class, extra)
    config.pad_token_id = config.pad_token_id if isinstance(getattr(config, "pad_token_id", None), int) else 0
    return config


def build(model_type: str, class_name: str) -> Built:
    import transformers

    model_class = getattr(transformers, class_name, None)
    if model_class is None:
        raise Skip(f"transformers has no {class_name}")
    config = make_config(model_type)
    try:
        with torch.device("meta"):
            check_size("transformers", count_parameters(model_class(config)))
    except (NotImplementedError, RuntimeError) as error:  # a constructor that reads what it made
        if "meta" not in str(error):
            raise
    torch.manual_seed(0)
    model = model_class(config)
    check_size("transformers", count_parameters(model))
    return _with_inputs(model.eval(), INPUTS.get(model_type, {}))


def _with_inputs(model: torch.nn.Module, table: dict[str, Any]) -> Built:
    """Tries the inputs that the rules give; the count of image tokens is corrected as the model asks."""
    candidates = [table.get("image_tokens", 4 if _has_images_in_text(model) else 0)]
    tried, problem = set(), ""
    while candidates and len(tried) < 8:
        image_tokens = candidates.pop(0)
        tried.add(image_tokens)
        inputs = make_inputs(model, image_tokens, table.get("leave_out", ()), table.get("extra"))
        arguments, named = inputs(_BATCH, False)
        try:
            with torch.no_grad():
                model(*arguments, **named)
            return Built(model, inputs)
        except ValueError as error:
            problem = str(error)
            counts = _FEATURES.search(problem)
            if counts is None:
                raise
            features = int(counts[2])
            for count in (features // _BATCH, features // _BATCH // HIDDEN, features):
                if count not in tried and 0 < count < 500:
                    candidates.append(count)
    raise Skip(f"the count of image tokens was not found: {problem}")


def _has_images_in_text(model: torch.nn.Module) -> bool:
    config = model.config
    names = ("image_token_id", "image_token_index", "audio_token_id", "audio_token_index")
    return any(isinstance(getattr(config, name, None), int) for name in names)
