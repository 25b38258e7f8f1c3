"""Small programs over public packages, each as a user of the package would write it; a package that is missing is skipped."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from zoo import packages_of_mathematics, packages_of_models, packages_of_science  # noqa: F401  (they register their programs)
from zoo.package_programs import Program, build, images, names, program, random, tokens
from zoo.zoo_model import ZooModel


def all_models() -> list[ZooModel]:
    return [ZooModel("packages", name, lambda n=name: build(n)) for name in names()]


# ---- shapes by name


@program("einops")
def attention_by_names():
    from einops import einsum, rearrange, reduce, repeat

    def run(self, x):
        q, k, v = rearrange(self.qkv(x), "b n (three h d) -> three b h n d", three=3, h=4)
        weights = einsum(q, k, "b h i d, b h j d -> b h i j").softmax(-1)
        out = rearrange(einsum(weights, v, "b h i j, b h j d -> b h i d"), "b h n d -> b n (h d)")
        token = repeat(self.token.weight, "one d -> b one d", b=len(x))
        return reduce(torch.cat([token, out], 1), "b n d -> b d", "mean")

    return Program(run, qkv=nn.Linear(16, 48), token=nn.Embedding(1, 16)), random(6, 16)


@program("einops")
def layers_of_shapes():
    from einops import pack, unpack
    from einops.layers.torch import EinMix, Rearrange, Reduce

    def run(self, x):
        packed, shapes = pack([self.patches(x), self.token.weight.expand(len(x), 1, -1)], "b * d")
        parts = unpack(self.mix(packed), shapes, "b * d")
        return self.head(torch.cat(parts, 1))

    modules = {
        "patches": nn.Sequential(Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4), nn.Linear(48, 16)),
        "token": nn.Embedding(1, 16),
        "mix": EinMix("b n d -> b n e", weight_shape="d e", bias_shape="e", d=16, e=16),
        "head": nn.Sequential(Reduce("b n d -> b d", "mean"), nn.Linear(16, 5)),
    }
    return Program(run, **modules), images()


@program("einx")
def operations_by_names():
    import einx

    def run(self, x):
        y = einx.dot("b s c, c d -> b s d", x, self.layer.weight)
        return einx.softmax("b s [d]", y), einx.mean("b [s] d", y)

    return Program(run, layer=nn.Linear(16, 16)), random(6, 16)


# ---- transformers, quantizers and their parts


@program("x_transformers")
def language_model():
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True)
    return TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers), tokens()


@program("x_transformers")
def trained_by_its_own_loss():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    model = TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=Decoder(dim=32, depth=1, heads=2, alibi_pos_bias=True))
    return AutoregressiveWrapper(model), tokens()


@program("x_transformers")
def encoder_of_images():
    from x_transformers import Encoder, ViTransformerWrapper

    model = ViTransformerWrapper(image_size=16, patch_size=4, num_classes=5, attn_layers=Encoder(dim=32, depth=2, heads=4))
    return model, images()


@program("vit_pytorch")
def plain_vision_transformer():
    from vit_pytorch import ViT

    return ViT(image_size=16, patch_size=4, num_classes=5, dim=32, depth=2, heads=2, mlp_dim=32), images()


@program("vit_pytorch")
def simple_vision_transformer():
    from vit_pytorch import SimpleViT

    return SimpleViT(image_size=16, patch_size=4, num_classes=5, dim=32, depth=2, heads=2, mlp_dim=32), images()


@program("rotary_embedding_torch")
def rotated_queries():
    from rotary_embedding_torch import RotaryEmbedding

    def run(self, x):
        q = self.rotary.rotate_queries_or_keys(self.layer(x).unflatten(-1, (2, 16)).transpose(1, 2))
        return F.scaled_dot_product_attention(q, q, q)

    return Program(run, rotary=RotaryEmbedding(dim=8), layer=nn.Linear(32, 32)), random(6, 32)


@program("local_attention")
def windows_of_attention():
    from local_attention import LocalAttention

    def run(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.attention(q, k, v)

    return Program(run, qkv=nn.Linear(16, 48), attention=LocalAttention(dim=16, window_size=4, causal=True)), random(12, 16)


@program("vector_quantize_pytorch")
def quantized_with_a_commitment():
    from vector_quantize_pytorch import VectorQuantize

    return VectorQuantize(dim=16, codebook_size=8, decay=0.8, commitment_weight=1.0), random(6, 16)


@program("vector_quantize_pytorch")
def quantized_to_a_lattice():
    from vector_quantize_pytorch import FSQ

    return Program(lambda self, x: self.quantize(self.layer(x)), quantize=FSQ(levels=[8, 5, 5]), layer=nn.Linear(16, 3)), random(6, 16)


@program("hyper_connections")
def residual_streams():
    from hyper_connections import get_init_and_expand_reduce_stream_functions

    connect, expand, reduce = get_init_and_expand_reduce_stream_functions(2)

    def run(self, x):
        return reduce(self.connected(expand(x)))

    return Program(run, connected=connect(dim=16, branch=nn.Linear(16, 16))), random(6, 16)


# ---- diffusion


@program("diffusers")
def denoising_network():
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return Program(lambda self, x: self.net(x, 10).sample, net=model), images(3, 8)


@program("diffusers")
def denoised_by_a_scheduler():
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler(num_train_timesteps=20)
    scheduler.set_timesteps(2)

    def run(self, x):
        for t in scheduler.timesteps:
            x = scheduler.step(self.net(x), t, x).prev_sample
        return x

    return Program(run, net=nn.Conv2d(3, 3, 3, 1, 1)), images(3, 8)


@program("diffusers")
def noise_that_is_added():
    from diffusers import DDPMScheduler

    scheduler = DDPMScheduler(num_train_timesteps=20)

    def run(self, x):
        noise = self.net(x).detach()
        steps = torch.arange(len(x))
        noisy = scheduler.add_noise(x, noise, steps)
        return F.mse_loss(self.net(noisy), scheduler.get_velocity(x, noise, steps))

    return Program(run, net=nn.Conv2d(3, 3, 3, 1, 1)), images(3, 8)


@program("diffusers")
def steps_of_a_solver():
    from diffusers import EulerDiscreteScheduler

    scheduler = EulerDiscreteScheduler(num_train_timesteps=20)

    def run(self, x):
        scheduler.set_timesteps(2)
        x = x * scheduler.init_noise_sigma
        for t in scheduler.timesteps:
            x = scheduler.step(self.net(scheduler.scale_model_input(x, t)), t, x).prev_sample
        return x

    return Program(run, net=nn.Conv2d(3, 3, 3, 1, 1)), images(3, 8)


@program("diffusers")
def autoencoder():
    from diffusers import AutoencoderKL

    model = AutoencoderKL(block_out_channels=(16, 16), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=8)
    return Program(lambda self, x: self.net(x).sample, net=model), images(3, 8)


# ---- images and volumes


@program("kornia")
def filtered_images():
    import kornia

    def run(self, x):
        y = kornia.filters.gaussian_blur2d(self.conv(x).sigmoid(), (3, 3), (1.0, 1.0))
        return kornia.color.rgb_to_grayscale(y), kornia.filters.sobel(y), kornia.filters.median_blur(y, 3)

    return Program(run, conv=nn.Conv2d(3, 3, 1)), images()


@program("kornia")
def transformed_images():
    import kornia

    def run(self, x):
        angle = self.angle.weight.flatten().expand(len(x))
        y = kornia.geometry.transform.rotate(x, angle * 10)
        return kornia.enhance.adjust_contrast(kornia.geometry.transform.resize(y, (8, 8)), 0.5), kornia.color.rgb_to_hsv(y)

    return Program(run, angle=nn.Embedding(1, 1)), images()


@program("kornia")
def losses_of_images():
    import kornia

    def run(self, x):
        y = self.conv(x).sigmoid()
        return kornia.losses.ssim_loss(y, x, 5), kornia.losses.total_variation(y), kornia.losses.charbonnier_loss(y, x)

    return Program(run, conv=nn.Conv2d(3, 3, 1)), images()


@program("monai")
def segmented_volumes():
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet

    net, loss = UNet(3, 1, 2, channels=(4, 8), strides=(2,)), DiceLoss(softmax=True, to_onehot_y=True)

    def run(self, x):
        scores = self.net(x)
        return scores, loss(scores, (x > 0.5).long())

    return Program(run, net=net), lambda batch: (images(1, 64)(batch)[0].unflatten(2, (8, 8))[:, :, :, :, :8],)


@program("segmentation_models_pytorch")
def segmented_images():
    import segmentation_models_pytorch as smp

    net = smp.Unet("resnet18", encoder_weights=None, encoder_depth=3, decoder_channels=(16, 8, 8), classes=2)
    return net, images(3, 32)


@program("efficientnet_pytorch")
def efficient_network():
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-b0", num_classes=5)
    model.set_swish(memory_efficient=False)
    return model, images(3, 32)
