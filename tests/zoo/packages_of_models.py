"""Programs over packages of whole models: images, language, diffusion, adapters, experts and what generates."""

from __future__ import annotations

import importlib

import torch
from torch import nn
from torch.nn import functional as F

from zoo.package_programs import Inputs, Program, images, program, random, tokens

_IMAGE = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 32}


def _vision(name: str, module: str, cls: str, inputs: Inputs | None = None, **more) -> None:
    """A model of vit_pytorch, of a file of its own."""

    def make():
        return getattr(importlib.import_module(f"vit_pytorch.{module}"), cls)(**more), inputs or images(3, 32)

    make.__name__ = name
    program("vit_pytorch")(make)


_vision("tokens_sampled_by_attention", "ats_vit", "ViT", max_tokens_per_depth=(8, 4), **_IMAGE)
_vision("attention_across_scales", "cross_vit", "CrossViT", image_size=32, num_classes=5, sm_dim=16, lg_dim=32, sm_patch_size=8,
        lg_patch_size=16, depth=1, sm_enc_heads=2, lg_enc_heads=2, lg_enc_depth=1, cross_attn_heads=2, dropout=0.0)  # fmt: skip
_vision("class_attention", "cait", "CaiT", cls_depth=1, layer_dropout=0.05, **_IMAGE)
_vision("heads_mixed_again", "deepvit", "DeepViT", **_IMAGE)
_vision("attention_of_channels", "xcit", "XCiT", cls_depth=1, layer_dropout=0.05, **_IMAGE)
_vision("nested_blocks", "nest", "NesT", image_size=32, patch_size=4, num_classes=5, dim=16, heads=2, num_hierarchies=2, block_repeats=(1, 1))
_vision("patches_of_frequencies", "simple_vit_with_fft", "SimpleViT", freq_patch_size=8, **_IMAGE)
_vision("normalized_weights", "normalized_vit", "nViT", **_IMAGE)
_vision("windows_and_grids", "max_vit", "MaxViT", images(3, 64), num_classes=5, dim=16, dim_conv_stem=16, dim_head=8, depth=(1, 1),
        window_size=4, dropout=0.0)  # fmt: skip
_vision("rotary_vision", "rvt", "RvT", **_IMAGE)


@program("vit_pytorch")
def images_of_many_sizes():
    from vit_pytorch.na_vit import NaViT

    def given(batch):
        return ([torch.rand(3, 8 * (1 + i % 3), 16, generator=torch.Generator().manual_seed(i)) for i in range(batch)],)

    model = NaViT(token_dropout_prob=0.1, **_IMAGE)
    return Program(lambda self, x: self.net(x, group_images=True, group_max_seq_len=8), net=model), given


@program("vit_pytorch")
def distilled():
    from vit_pytorch import ViT
    from vit_pytorch.distill import DistillableViT, DistillWrapper

    net = DistillWrapper(teacher=ViT(**_IMAGE), student=DistillableViT(**_IMAGE))
    return Program(lambda self, x: self.net(x, torch.arange(len(x)) % 5), net=net), images(3, 32)


# ---- language


@program("linformer")
def projected_keys():
    from linformer import LinformerLM

    return LinformerLM(num_tokens=50, dim=32, seq_len=10, depth=2, k=4, heads=2), tokens()


@program("performer_pytorch")
def random_features():
    from performer_pytorch import PerformerLM

    return PerformerLM(num_tokens=50, max_seq_len=16, dim=32, depth=2, heads=2, dim_head=16, nb_features=8, feature_redraw_interval=2), tokens(16)


@program("reformer_pytorch")
def hashed_buckets():
    from reformer_pytorch import LSHSelfAttention

    return LSHSelfAttention(dim=32, heads=2, bucket_size=8, n_hashes=2), random(32, 32)


@program("reformer_pytorch")
def reversible_layers():
    from reformer_pytorch import ReformerLM

    model = ReformerLM(num_tokens=50, dim=32, depth=2, max_seq_len=32, heads=2, dim_head=16, bucket_size=8, n_hashes=2, causal=True, ff_chunks=2)
    return model, tokens(32)


@program("local_attention")
def local_language_model():
    from local_attention import LocalTransformer

    net = LocalTransformer(num_tokens=50, dim=32, depth=2, max_seq_len=32, local_attn_window_size=4, heads=2, dim_head=16)
    return Program(lambda self, x: self.net(x, return_loss=True), net=net), tokens(16)


@program("mambapy")
def scanned_in_parallel():
    from mambapy.mamba import Mamba, MambaConfig

    return Mamba(MambaConfig(d_model=16, n_layers=2, d_state=4)), random(8, 16)


@program("mambapy")
def stepped_with_caches():
    from mambapy.mamba import Mamba, MambaConfig

    def run(self, x):
        caches, out = [(None, torch.zeros(len(x), 32, 3)) for _ in range(2)], []
        for step in x.unbind(1):
            y, caches = self.net.step(step, caches)
            out.append(y)
        return torch.stack(out, 1)

    return Program(run, net=Mamba(MambaConfig(d_model=16, n_layers=2, d_state=4))), random(5, 16)


@program("titans_pytorch")
def memory_as_context():
    from titans_pytorch import MemoryAsContextTransformer

    return MemoryAsContextTransformer(
        num_tokens=50, dim=16, depth=2, segment_len=8, num_persist_mem_tokens=2, num_longterm_mem_tokens=2, dim_head=8, heads=2,
        neural_memory_layers=(),
    ), tokens(17)  # fmt: skip


def _decoder(**layers):
    from x_transformers import Decoder, TransformerWrapper

    return TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **layers))


@program("x_transformers")
def memories_and_talking_heads():
    return _decoder(attn_num_mem_kv=3, attn_pre_talking_heads=True, attn_post_talking_heads=True, residual_attn=True), tokens()


@program("x_transformers")
def sparse_and_shifted():
    return _decoder(attn_sparse_topk=4, attn_qk_norm=True, shift_tokens=1, gate_residual=True, add_value_residual=True), tokens()


@program("x_transformers")
def segments_with_memories():
    from x_transformers import Decoder, TransformerWrapper

    net = TransformerWrapper(num_tokens=50, max_seq_len=16, max_mem_len=8, attn_layers=Decoder(dim=32, depth=1, heads=2, rel_pos_bias=True))

    def run(self, x):
        first, memories = self.net(x[:, :5], return_mems=True)
        return first, self.net(x[:, 5:], mems=memories)

    return Program(run, net=net), tokens()


@program("x_transformers")
def preferences():
    from x_transformers import DPO

    def run(self, x):
        return self.net(x, x.flip(1), prompt_mask=(torch.arange(10) < 3).expand(len(x), -1))

    return Program(run, net=DPO(_decoder())), tokens()


# ---- experts, sets and points


@program("perceiver_pytorch")
def few_latents():
    from perceiver_pytorch import Perceiver

    net = Perceiver(num_freq_bands=2, depth=2, max_freq=4.0, num_latents=4, latent_dim=16, latent_heads=2, num_classes=5, weight_tie_layers=True)
    return Program(lambda self, x: self.net(x.permute(0, 2, 3, 1)), net=net), images(3, 8)


@program("soft_moe_pytorch")
def soft_experts():
    from soft_moe_pytorch import SoftMoE

    return SoftMoE(dim=16, seq_len=10, num_experts=3), random(10, 16)


@program("st_moe_pytorch")
def routed_experts():
    from st_moe_pytorch import MoE, SparseMoEBlock

    return SparseMoEBlock(MoE(dim=16, num_experts=4, gating_top_n=2), add_ff_before=True), random(10, 16)


@program("egnn_pytorch")
def equivariant_layer():
    from egnn_pytorch import EGNN

    net = EGNN(dim=8, num_nearest_neighbors=3, fourier_features=2, norm_coors=True, soft_edges=True)
    return Program(lambda self, x: self.net(x, x[..., :3]), net=net), random(6, 8)


@program("vector_quantize_pytorch")
def quantized_again_and_again():
    from vector_quantize_pytorch import ResidualVQ

    return ResidualVQ(dim=16, num_quantizers=3, codebook_size=8, use_cosine_sim=True, codebook_dim=8, shared_codebook=True), random(6, 16)


@program("vector_quantize_pytorch")
def quantized_without_a_codebook():
    from vector_quantize_pytorch import LFQ

    return LFQ(codebook_size=16, dim=16, entropy_loss_weight=0.1), random(6, 16)


# ---- diffusion


def _diffusion_unet(**more):
    from denoising_diffusion_pytorch import Unet

    return Unet(dim=16, dim_mults=(1, 2), attn_dim_head=8, attn_heads=2, **more)


@program("denoising_diffusion_pytorch")
def loss_of_a_noise():
    from denoising_diffusion_pytorch import GaussianDiffusion

    return GaussianDiffusion(_diffusion_unet(), image_size=8, timesteps=20, min_snr_loss_weight=True, offset_noise_strength=0.1), images(3, 8)


@program("denoising_diffusion_pytorch")
def elucidated():
    from denoising_diffusion_pytorch import ElucidatedDiffusion

    return ElucidatedDiffusion(_diffusion_unet(random_fourier_features=True), image_size=8), images(3, 8)


@program("denoising_diffusion_pytorch")
def learned_variance():
    from denoising_diffusion_pytorch import LearnedGaussianDiffusion

    return LearnedGaussianDiffusion(_diffusion_unet(out_dim=6, learned_variance=True), image_size=8, timesteps=20), images(3, 8)


def _images_and_words(batch):
    return images(4, 8)(batch)[0], random(5, 16)(batch)[0]


@program("diffusers")
def denoised_by_words():
    from diffusers import UNet2DConditionModel

    net = UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16, attention_head_dim=8,
    )  # fmt: skip
    return Program(lambda self, x, words: self.net(x, torch.arange(len(x)), encoder_hidden_states=words).sample, net=net), _images_and_words


@program("diffusers")
def diffusion_transformer():
    from diffusers import DiTTransformer2DModel

    net = DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=1, sample_size=8, num_embeds_ada_norm=10)
    return Program(lambda self, x: self.net(x, timestep=torch.arange(len(x)), class_labels=torch.arange(len(x))).sample, net=net), images(4, 8)


@program("diffusers")
def flows_with_two_streams():
    from diffusers import SD3Transformer2DModel

    net = SD3Transformer2DModel(
        sample_size=8, patch_size=1, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16,
        caption_projection_dim=16, pooled_projection_dim=16, out_channels=4,
    )  # fmt: skip

    def run(self, x, words):
        steps = torch.arange(len(x))
        return self.net(hidden_states=x, encoder_hidden_states=words, pooled_projections=words[:, 0], timestep=steps).sample

    return Program(run, net=net), _images_and_words


@program("diffusers")
def solver_of_several_steps():
    from diffusers import UniPCMultistepScheduler

    scheduler = UniPCMultistepScheduler(num_train_timesteps=20)

    def run(self, x):
        scheduler.set_timesteps(3)
        for t in scheduler.timesteps:
            x = scheduler.step(self.net(x), t, x).prev_sample
        return x

    return Program(run, net=nn.Conv2d(3, 3, 3, 1, 1)), images(3, 8)


# ---- adapters and generation


def _language_model():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    ))  # fmt: skip


def _adapted(name: str, kind: str, **config) -> None:
    def make():
        import peft

        net = peft.get_peft_model(_language_model(), getattr(peft, kind)(task_type="CAUSAL_LM", **config))
        return Program(lambda self, x: self.net(input_ids=x, attention_mask=torch.ones_like(x)).logits, net=net), tokens()

    make.__name__ = name
    program("peft", "transformers")(make)


_adapted("low_rank", "LoraConfig", r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)
_adapted("low_rank_with_directions", "LoraConfig", r=4, target_modules=["q_proj", "v_proj"], use_dora=True)
_adapted("scaled_activations", "IA3Config", target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"])
_adapted("prefixes", "PrefixTuningConfig", num_virtual_tokens=3)
_adapted("products_of_low_ranks", "LoHaConfig", r=2, target_modules=["q_proj", "v_proj"])
_adapted("orthogonal", "OFTConfig", oft_block_size=4, target_modules=["q_proj", "v_proj"])


@program("open_clip")
def images_beside_texts():
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP

    vision = {"image_size": 16, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}
    net = CLIP(16, vision, {"context_length": 10, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1}, output_dict=True)
    loss = ClipLoss()
    return Program(lambda self, x, text: loss(**self.net(x, text)), net=net), lambda batch: (images()(batch)[0], tokens()(batch)[0])


@program("sentence_transformers", "transformers")
def sentences():
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling

    def run(self, x):
        features = {"token_embeddings": self.words(x), "attention_mask": (x > 3).long()}
        y = self.normalize(self.dense(self.pool(features)))["sentence_embedding"]
        return y, F.cosine_similarity(y, y.roll(1, 0))

    parts = {"pool": Pooling(16, pooling_mode="mean"), "dense": Dense(16, 8), "normalize": Normalize()}
    return Program(run, words=nn.Embedding(50, 16), **parts), tokens()
