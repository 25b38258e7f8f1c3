"""What no rule finds for an architecture of transformers: settings of its configuration, and inputs.

`CONFIGS`: settings that are kept as given, or a function (transformers, make_config) that makes the configuration.
`INPUTS`: `leave_out` names of inputs, `extra` a function of the Maker that gives more, `image_tokens` their number.
"""

from __future__ import annotations

from typing import Any

import torch

_RESNET = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "layer_type": "basic",
           "out_features": ["stage2", "stage3", "stage4"]}  # fmt: skip
_ROPE = {"rope_type": "default", "type": "default", "mrope_section": [1, 1, 2]}
_BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 128}
_SWIN = {"model_type": "swin", "image_size": 64, "patch_size": 4, "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 2],
         "window_size": 2, "out_features": ["stage1", "stage2", "stage3", "stage4"]}  # fmt: skip
_DETECTION = {"num_queries": 8, "d_model": 32, "backbone_config": {
    **_SWIN, "out_features": ["stage2", "stage3", "stage4"]}}  # fmt: skip
_VIT = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32, "patch_size": 8,
        "out_features": ["stage1", "stage2", "stage3", "stage4"]}  # fmt: skip
_DINO = {"model_type": "dinov2", "reshape_hidden_states": False, "apply_layernorm": True, **_VIT}
_BEIT = {"model_type": "beit", "reshape_hidden_states": False, **_VIT}
_RT_RESNET = {"model_type": "rt_detr_resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "layer_type": "basic",
              "out_features": ["stage2", "stage3", "stage4"]}  # fmt: skip
_RT = {"num_queries": 8, "num_denoising": 0, "encoder_hidden_dim": 32, "d_model": 32, "decoder_in_channels": [32, 32, 32], "num_feature_levels": 3}
_HG = {"model_type": "hgnet_v2", "stem_channels": [3, 8, 8], "stage_in_channels": [8, 8, 16, 24], "stage_mid_channels": [8, 8, 8, 8],
       "stage_out_channels": [8, 16, 24, 32], "hidden_sizes": [8, 16, 24, 32], "stage_num_blocks": [1, 1, 1, 1],
       "stage_numb_of_layers": [2, 2, 2, 2], "out_features": ["stage2", "stage3", "stage4"]}  # fmt: skip
_CODEC = {"model_type": "mimi", "num_filters": 8, "hidden_size": 32, "upsample_groups": 32, "codebook_size": 32, "codebook_dim": 16, "num_quantizers": 4,
          "vector_quantization_hidden_dimension": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8,
          "intermediate_size": 64}  # fmt: skip
_SAM2 = {"vision_config": {"fpn_hidden_size": 32, "backbone_channel_list": [32, 24, 16, 8], "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
                           "backbone_config": {"model_type": "sam2_hiera_det_model", "image_size": [64, 64], "hidden_size": 8,
                                               "embed_dim_per_stage": [8, 16, 24, 32], "num_attention_heads": 1,
                                               "num_attention_heads_per_stage": [1, 2, 2, 4], "blocks_per_stage": [1, 1, 2, 1],
                                               "global_attention_blocks": [3], "window_size_per_stage": [4, 4, 4, 4],
                                               "window_positional_embedding_background_size": [4, 4]}},
         "prompt_encoder_config": {"hidden_size": 32, "image_size": 64, "patch_size": 16},
         "mask_decoder_config": {"hidden_size": 32, "iou_head_hidden_dim": 32, "mlp_dim": 64}}  # fmt: skip


def _own_backbone(**more: Any):
    """A small ResNet in place of one that is downloaded."""

    def make(transformers: Any, make_config: Any) -> dict[str, Any]:
        return {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": dict(_RESNET),
                "backbone_kwargs": None, **more}  # fmt: skip

    return make


def _pair(class_name: str, first: str, second: str, names: tuple[str, str] = ("encoder", "decoder"), **more: Any):
    """A configuration of two others."""

    def make(transformers: Any, make_config: Any) -> Any:
        one, two = make_config(first), make_config(second)
        if names[1] == "decoder":
            two.is_decoder = two.add_cross_attention = True
        config = getattr(transformers, class_name)(**{names[0]: one.to_dict(), names[1]: two.to_dict()}, **more)
        config.pad_token_id, config.decoder_start_token_id = 0, 1
        return config

    return make


CONFIGS: dict[str, Any] = {
    "encoder-decoder": _pair("EncoderDecoderConfig", "bert", "bert"),
    "vision-encoder-decoder": _pair("VisionEncoderDecoderConfig", "vit", "bert"),
    "speech-encoder-decoder": _pair("SpeechEncoderDecoderConfig", "wav2vec2", "bert"),
    "vision-text-dual-encoder": _pair("VisionTextDualEncoderConfig", "vit", "bert", ("vision_config", "text_config")),
    "detr": _own_backbone(),
    "conditional_detr": _own_backbone(),
    "deformable_detr": _own_backbone(),
    "table-transformer": _own_backbone(),
    "dab-detr": _own_backbone(),
    "bit": {"num_groups": 4},
    "autoformer": {"prediction_length": 4, "context_length": 16, "lags_sequence": [1, 2]},
    "informer": {"prediction_length": 4, "context_length": 16, "lags_sequence": [1, 2]},
    "time_series_transformer": {"prediction_length": 4, "context_length": 16, "lags_sequence": [1, 2]},
    "esm": {"vocab_size": 64, "mask_token_id": 5, "pad_token_id": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gemma3n_text": {"intermediate_size": 64, "num_kv_shared_layers": 0, "activation_sparsity_pattern": None},
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 2},
    "xmod": {"default_language": "en_XX", "languages": ["en_XX"]},
    "wav2vec2-bert": {"vocab_size": 32},
    "wav2vec2-conformer": {"vocab_size": 32},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [4, 4], "hidden_size": 32, "feed_forward_size": 64},
    "qwen2_vl_text": {"rope_scaling": _ROPE},
    "qwen2_5_vl_text": {"rope_scaling": _ROPE},
    "qwen3_vl_text": {"rope_scaling": _ROPE},
    "qwen3_vl_moe_text": {"rope_scaling": _ROPE},
    "qwen2_vl": {"text_config": {"rope_scaling": _ROPE}, "vision_config": {"embed_dim": 32, "hidden_size": 32, "depth": 2, "num_heads": 4}},
    "qwen3_vl": {"text_config": {"rope_scaling": _ROPE}},
    "qwen3_vl_moe": {"text_config": {"rope_scaling": _ROPE}},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "swinv2": {"image_size": 64, "embed_dim": 8},
    "maskformer-swin": {"image_size": 64, "embed_dim": 8},
    "jamba": {"use_mamba_kernels": False},
    "layoutlm": {"max_2d_position_embeddings": 128},
    "bridgetower": {"vision_config": {"hidden_size": 64, "num_hidden_layers": 2}, "hidden_size": 64, "text_config": {"hidden_size": 64}},
    "efficientformer": {"image_size": 224, "hidden_sizes": [8, 16, 24, 32], "resolution": 7, "dim": 32, "num_meta3d_blocks": 1},
    "align": {"vision_config": {"width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 64, "image_size": 64}},
    "mobilevitv2": {"image_size": 64},
    "timesfm": {"patch_length": 8, "context_length": 32, "horizon_length": 8},
    "longcat_flash": {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "head_dim": 8, "v_head_dim": 8},
    "superpoint": {"keypoint_decoder_dim": 65, "descriptor_decoder_dim": 32},
    "moonshine": {"encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4},
    "dac": {"encoder_hidden_size": 8, "decoder_hidden_size": 64, "codebook_dim": 4, "n_codebooks": 2},
    "encodec": {"num_filters": 4, "hidden_size": 16, "codebook_dim": 16, "target_bandwidths": [1.5, 24.0], "num_lstm_layers": 1},
    "textnet": {"stem_out_channels": 32, "hidden_sizes": [32, 32, 32, 32, 32]},
    "retribert": {"position_embedding_type": "absolute"},
    "perceiver": {"image_size": 32, "train_size": [32, 32], "d_latents": 32, "d_model": 32, "num_latents": 8, "num_self_attends_per_block": 2,
                  "num_self_attention_heads": 4, "num_cross_attention_heads": 4, "qk_channels": 32, "v_channels": 32},
    "hgnet_v2": {"stem_channels": [3, 8, 8], "stage_in_channels": [8, 8, 16, 24], "stage_mid_channels": [8, 8, 8, 8],
                 "stage_out_channels": [8, 16, 24, 32], "hidden_sizes": [8, 16, 24, 32], "stage_num_blocks": [1, 1, 1, 1],
                 "stage_numb_of_layers": [2, 2, 2, 2], "image_size": 64},
    "sam2_hiera_det_model": {"image_size": [64, 64], "hidden_size": 8, "embed_dim_per_stage": [8, 16, 24, 32],
                             "num_attention_heads": 1, "num_attention_heads_per_stage": [1, 2, 2, 4], "blocks_per_stage": [1, 1, 2, 1],
                             "global_attention_blocks": [3], "window_size_per_stage": [4, 4, 4, 4], "window_positional_embedding_background_size": [4, 4]},
    "deepseek_v2": {"num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "falcon_h1": {"mamba_d_ssm": 64},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "layers_block_type": ["mamba", "attention"]},
    "xlstm": {"qk_dim_factor": 0.5, "v_dim_factor": 1.0, "num_heads": 4, "mode": "inference", "return_last_states": False},
    "gemma3n": {"text_config": {"intermediate_size": 64, "num_kv_shared_layers": 0, "activation_sparsity_pattern": None}},
    "gemma3": {"mm_tokens_per_image": 4, "vision_config": {"image_size": 32, "patch_size": 8}},
    "shieldgemma2": {"mm_tokens_per_image": 4, "vision_config": {"image_size": 32, "patch_size": 8}},
    "llama4": {"vision_config": {"vision_output_dim": 32, "intermediate_size": 128, "projector_input_dim": 32, "projector_output_dim": 32}},
    "grounding-dino": {**_DETECTION, "text_config": {"model_type": "bert", **_BERT}},
    "mm-grounding-dino": {**_DETECTION, "text_config": {"model_type": "bert", **_BERT}},
    "depth_anything": {"backbone_config": _DINO, "reassemble_hidden_size": 32, "neck_hidden_sizes": [8, 16, 24, 32], "reassemble_factors": [4, 2, 1, 0.5]},
    "prompt_depth_anything": {"backbone_config": _DINO, "reassemble_hidden_size": 32, "neck_hidden_sizes": [8, 16, 24, 32], "reassemble_factors": [4, 2, 1, 0.5]},
    "zoedepth": {"backbone_config": _BEIT, "neck_hidden_sizes": [8, 16, 24, 32], "num_relative_features": 8, "bottleneck_features": 32},
    "dpt": {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 16, 24, 32]},
    "upernet": {"backbone_config": {**_RESNET, "out_features": ["stage1", "stage2", "stage3", "stage4"]}, "auxiliary_in_channels": 24},
    "vit_hybrid": {"backbone_config": {"model_type": "bit", "embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1],
                                       "num_groups": 4, "out_features": ["stage4"], "global_padding": "same", "layer_type": "bottleneck"},
                   "image_size": 64, "patch_size": 1, "backbone_featmap_shape": [1, 32, 2, 2]},
    "rt_detr": {"backbone_config": _RT_RESNET, "encoder_in_channels": [16, 24, 32], "encoder_layers": 1, **_RT},
    "rt_detr_v2": {"backbone_config": _RT_RESNET, "encoder_in_channels": [16, 24, 32], "encoder_layers": 1, **_RT},
    "d_fine": {"backbone_config": {**_HG}, "encoder_in_channels": [16, 24, 32], "encoder_layers": 1, **_RT, "num_head_layers": 4},
    "mask2former": {"backbone_config": _SWIN, "image_size": 64, "feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32},
    "oneformer": {"backbone_config": _SWIN, "image_size": 64},
    "mimi": _CODEC,
    "csm": {"codec_config": _CODEC, "depth_decoder_config": {"backbone_hidden_size": 32}},
    "kyutai_speech_to_text": {"codec_config": _CODEC},
    "parakeet_encoder": {"num_mel_bins": 80, "subsampling_conv_channels": 32},
    "parakeet_ctc": {"encoder_config": {"num_mel_bins": 80, "subsampling_conv_channels": 32}},
    "sam": {"prompt_encoder_config": {"hidden_size": 32, "image_embedding_size": 4, "image_size": 32, "patch_size": 8},
            "vision_config": {"output_channels": 32, "image_size": 32, "patch_size": 8, "global_attn_indexes": [1], "num_pos_feats": 16},
            "mask_decoder_config": {"hidden_size": 32, "iou_head_hidden_dim": 32}},
    "edgetam_video": _SAM2, "sam2": _SAM2, "sam2_video": _SAM2,
    "sam2_vision_model": _SAM2["vision_config"],
    "mllama": {"text_config": {"cross_attention_layers": [1], "rope_scaling": {"rope_type": "default"}}},
    "emu3": {"text_config": {"rope_scaling": None}},
    "kosmos-2": {"latent_query_num": 4},
    "univnet": {"model_hidden_channels": 8, "model_in_channels": 16, "num_mel_bins": 20, "kernel_predictor_hidden_channels": 16},
    "pix2struct": {"text_config": {"vocab_size": 128, "hidden_size": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4, "num_layers": 2},
                   "vision_config": {"hidden_size": 32, "d_kv": 8, "d_ff": 64, "num_attention_heads": 4, "patch_embed_hidden_size": 192}},
    "vits": {"upsample_initial_channel": 64, "hidden_size": 32, "flow_size": 32, "spectrogram_bins": 33, "ffn_dim": 64, "wavenet_dilation_rate": 1},
    "lilt": {"max_2d_position_embeddings": 128, "hidden_size": 48, "num_attention_heads": 4, "channel_shrink_ratio": 4},
    "swin": {"image_size": 64, "embed_dim": 8, "patch_size": 4, "window_size": 2},
    "donut-swin": {"image_size": 64, "embed_dim": 8, "patch_size": 4, "window_size": 2},
    "tvp": {"type_vocab_size": 2, "max_img_size": 64, "visual_prompt_size": 8, **_own_backbone()(None, None)},
    "levit": {"image_size": 64, "patch_size": 16, "hidden_sizes": [16, 24, 32], "key_dim": [8, 8, 8], "num_attention_heads": [2, 2, 2]},
    "sam_hq": {"prompt_encoder_config": {"hidden_size": 32, "image_embedding_size": 4, "image_size": 32, "patch_size": 8}, "vision_config": {"output_channels": 32, "image_size": 32, "patch_size": 8, "global_attn_indexes": [1], "num_pos_feats": 16}, "mask_decoder_config": {"hidden_size": 32, "iou_head_hidden_dim": 32, "vit_dim": 32}},
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320, "image_size": 64},
    "blip-2": {"image_token_index": 127, "num_query_tokens": 8},
    "instructblip": {"image_token_index": 127, "video_token_index": 127, "num_query_tokens": 8},
    "instructblipvideo": {"image_token_index": 127, "video_token_index": 127, "num_query_tokens": 8},
    "voxtral": {"audio_token_id": 126},
    "layoutlmv3": {"max_2d_position_embeddings": 128, "input_size": 32, "coordinate_size": 6, "shape_size": 4},
    "vjepa2": {"frames_per_clip": 4, "crop_size": 32, "patch_size": 16, "mlp_ratio": 2.0, "hidden_size": 48, "num_attention_heads": 2, "pred_hidden_size": 48, "pred_num_attention_heads": 2, "image_size": 32},
    "cvt": {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 2], "depth": [1, 2, 3]},
    "vipllava": {"vision_feature_layers": [-1, -2]},
    "lightglue": {"keypoint_detector_config": {"model_type": "superpoint", "keypoint_decoder_dim": 65, "descriptor_decoder_dim": 32}},
    "markuplm": {"max_depth": 10, "max_xpath_tag_unit_embeddings": 256, "max_xpath_subs_unit_embeddings": 1024, "xpath_unit_hidden_size": 8},
    "bros": {"hidden_size": 128},
    "glm4v_text": {"rope_scaling": _ROPE, "partial_rotary_factor": 1.0},
    "glm4v_moe_text": {"rope_scaling": _ROPE, "partial_rotary_factor": 1.0},
    "glm4v_moe": {"text_config": {"rope_scaling": _ROPE, "partial_rotary_factor": 1.0}},
    "glm4v": {"text_config": {"rope_scaling": _ROPE, "partial_rotary_factor": 1.0}},
    "qwen2_5_vl": {"text_config": {"rope_scaling": _ROPE}, "vision_config": {"out_hidden_size": 32, "depth": 2, "num_heads": 4, "window_size": 32}},
    "seggpt": {"image_size": [64, 32]},
    "zamba": {"use_mamba_kernels": False, "num_hidden_layers": 8, "attn_layer_period": 4, "attn_layer_offset": 2, "hidden_size": 32, "attention_hidden_size": 64, "attention_head_dim": 16},
    "llava_next": {"image_grid_pinpoints": [[32, 32]]},
    "llava_next_video": {"image_grid_pinpoints": [[32, 32]]},
    "llava_onevision": {"image_grid_pinpoints": [[32, 32]], "vision_config": {"image_size": 32, "patch_size": 8}},
    "transfo-xl": {"cutoffs": [20, 40, 60], "vocab_size": 100, "d_embed": 32, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64,
                   "n_layer": 2, "div_val": 1, "adaptive": True, "tie_projs": [True, True, True, True]},
}  # fmt: skip


def _grid(maker: Any) -> dict[str, Any]:
    """One image of 4 by 4 patches for each sample, as one list of patches."""
    vision = maker.config.vision_config
    channels = getattr(vision, "in_channels", getattr(vision, "in_chans", 3))
    width = channels * vision.temporal_patch_size * vision.patch_size**2
    return {"pixel_values": maker._uniform(16 * maker.batch, width), "image_grid_thw": torch.tensor([[1, 4, 4]] * maker.batch)}


def _patches(maker: Any) -> dict[str, Any]:
    vision = getattr(maker.config, "vision_config", maker.config)
    count = 16
    return {
        "pixel_values": maker._uniform(maker.batch, count, vision.num_channels * vision.patch_size**2),
        "pixel_attention_mask": torch.ones(maker.batch, count, dtype=torch.long),
        "spatial_shapes": torch.tensor([[4, 4]] * maker.batch),
    }


def _one_of_several_images(maker: Any) -> dict[str, Any]:
    return {"pixel_values": maker.pixel_values()[:, None]}


def _grid_of_patches(maker: Any) -> dict[str, Any]:
    """As Pix2Struct has it: each patch with its row and column before its pixels."""
    return {"flattened_patches": maker._uniform(maker.batch, 16, 194).abs().ceil() * 2, "attention_mask": torch.ones(maker.batch, 16)}


def _decision(maker: Any) -> dict[str, Any]:
    one = maker._uniform(maker.batch, 6, 1)
    return {
        "states": maker._uniform(maker.batch, 6, maker.config.state_dim),
        "actions": maker._uniform(maker.batch, 6, maker.config.act_dim),
        "rewards": one, "returns_to_go": one, "timesteps": maker._integers(0, 20, maker.batch, 6), "attention_mask": torch.ones(maker.batch, 6),
    }  # fmt: skip


def _pixels(*shape: int, name: str = "pixel_values"):
    return {"extra": lambda maker: {name: maker._uniform(maker.batch, *shape)}}


def _graph(maker: Any) -> dict[str, Any]:
    nodes, batch = 6, maker.batch
    return {
        "input_nodes": maker._integers(1, 30, batch, nodes, 1), "input_edges": maker._integers(1, 30, batch, nodes, nodes, 3, 1),
        "attn_bias": torch.zeros(batch, nodes + 1, nodes + 1), "in_degree": maker._integers(1, 20, batch, nodes),
        "out_degree": maker._integers(1, 20, batch, nodes), "spatial_pos": maker._integers(1, 20, batch, nodes, nodes),
        "attn_edge_type": maker._integers(1, 30, batch, nodes, nodes, 1),
    }  # fmt: skip


def _image_and_its_piece(maker: Any) -> dict[str, Any]:
    return {"pixel_values": torch.stack([maker.pixel_values(), maker.pixel_values()], dim=1), "image_sizes": maker.image_sizes()}


_GRID = {"extra": _grid, "image_tokens": 4, "leave_out": ("pixel_values_videos",)}
INPUTS: dict[str, Any] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "glm4v", "glm4v_moe"), _GRID),
    **dict.fromkeys(("siglip2", "siglip2_vision_model", "lfm2_vl"), {"extra": _patches}),
    **dict.fromkeys(("idefics2", "idefics3", "smolvlm"), {"extra": _one_of_several_images}),
    **dict.fromkeys(("lightglue", "superglue", "efficientloftr"), {"extra": lambda maker: {"pixel_values": maker._uniform(maker.batch, 2, 3, 64, 64)}}),
    "superpoint": {"extra": lambda maker: {"pixel_values": maker._uniform(maker.batch, 3, 64, 64)}},
    "blip-2": {"image_tokens": 8},
    "mistral3": {"extra": lambda maker: {"image_sizes": maker.image_sizes()}},
    **dict.fromkeys(("llava_next", "llava_next_video", "llava_onevision"), {"extra": _image_and_its_piece}),
    "instructblipvideo": {"image_tokens": 8, "extra": lambda maker: {
        "qformer_input_ids": maker._tokens(8), "pixel_values": maker.pixel_values()[:, None]}},
    "qwen2_audio": {"extra": lambda maker: {"feature_attention_mask": torch.ones(maker.batch, 64, dtype=torch.long)}},
    "seggpt": {"extra": lambda maker: {name: maker._uniform(maker.batch, 3, 32, 32) for name in ("pixel_values", "prompt_pixel_values", "prompt_masks")}},
    "xcodec": {"extra": lambda maker: {"input_values": maker._uniform(maker.batch, 1, 1600)}},
    "pop2piano": {"leave_out": ("input_features",)},
    "clap": {"extra": lambda maker: {"input_features": maker._uniform(maker.batch, 1, 64, 64)}},
    "instructblip": {"image_tokens": 8, "extra": lambda maker: {"qformer_input_ids": maker._tokens(8)}},
    "decision_transformer": {"extra": _decision},
    "graphormer": {"extra": _graph},
    "pix2struct": {"extra": _grid_of_patches},
    "dac": {"extra": lambda maker: {"input_values": maker._uniform(maker.batch, 1, 1024)}},
    "sam": _pixels(3, 32, 32), "sam_hq": _pixels(3, 32, 32),
    **dict.fromkeys(("sam2", "sam2_video", "edgetam_video", "sam2_vision_model"), _pixels(3, 64, 64)),
    "vjepa2": _pixels(4, 3, 32, 32, name="pixel_values_videos"),
    "univnet": {"extra": lambda maker: {"input_features": maker._uniform(maker.batch, 10, 20)}},
    "timesfm": {"leave_out": ("past_observed_mask", "future_values")},
    "retribert": {"extra": lambda maker: {"input_ids_query": maker._tokens(8), "attention_mask_query": torch.ones(maker.batch, 8),
                                          "input_ids_doc": maker._tokens(8), "attention_mask_doc": torch.ones(maker.batch, 8)}},
    "oneformer": {"extra": lambda maker: {"task_inputs": maker._uniform(maker.batch, 77)}},
    "gemma3n_audio": {"extra": lambda maker: {"audio_mel": maker._uniform(maker.batch, 32, 32), "audio_mel_mask": torch.zeros(maker.batch, 32, dtype=torch.bool)}},
    "kosmos-2": {"leave_out": ("pixel_values",)},
    "speech-encoder-decoder": {"leave_out": ("input_features",)},
    "blip_2_qformer": {"extra": lambda maker: {"encoder_hidden_states": maker._uniform(maker.batch, 5, maker.config.encoder_hidden_size)}},
    "deepseek_vl_hybrid": {"extra": lambda maker: {"high_res_pixel_values": maker._uniform(maker.batch, 3, 32, 32)}},
    "phi4_multimodal": {"leave_out": ("pixel_values",)},
    "idefics": {"extra": _one_of_several_images},
    "trajectory_transformer": {"extra": lambda maker: {"trajectories": maker._integers(0, 20, maker.batch, 10)}},
    "video_llava": {"leave_out": ("pixel_values_videos",)},
    "tvlt": {"extra": lambda maker: {"pixel_values": maker._uniform(maker.batch, maker.config.num_frames, 3, 32, 32),
                                     "audio_values": maker._uniform(maker.batch, 1, 32, maker.config.frequency_length)}},
}  # fmt: skip
