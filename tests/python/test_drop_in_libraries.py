"""Loops of transformers' Trainer, accelerate, Lightning, diffusers and torchtune through the drop-in: one graph, and the losses of eager.

A library that is not installed is skipped; each loop runs in a process of its own.
"""

import importlib.util
import json

import pytest

pytestmark = pytest.mark.compiles_nothing("runs in a process of its own")

_BEGINNING = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch, framefuse
if {ours}:
    framefuse.as_torch_compile()
else:
    torch.compile = lambda model=None, **settings: model
torch.manual_seed(0)
def linear_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
def batches():
    return torch.utils.data.DataLoader(torch.randn(32, 8, generator=torch.Generator().manual_seed(2)), batch_size=8)
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
    return LlamaForCausalLM(LlamaConfig(vocab_size=64, max_position_embeddings=64, **sizes))
"""
_END = """
counts = framefuse.statistics()
print("RESULT", json.dumps([losses, counts["graphs"], counts["graph_breaks"], counts["bugs"]]))
"""

_LOOPS = {
    "transformers": """
from transformers import Trainer, TrainingArguments
generator = torch.Generator().manual_seed(1)
rows = [torch.randint(0, 64, (16,), generator=generator) for _ in range(32)]
arguments = TrainingArguments(output_dir="out", max_steps=4, per_device_train_batch_size=4, logging_steps=1, report_to=[],
                              torch_compile={ours}, use_cpu=True, save_strategy="no", disable_tqdm=True, seed=0)
trainer = Trainer(model=llama(), args=arguments, train_dataset=[dict(input_ids=row, labels=row) for row in rows])
trainer.train()
losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
""",
    "transformers, static cache": """
model = llama().eval()
model.forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)
ids = torch.arange(6)[None]
losses = model.generate(ids, max_new_tokens=8, do_sample=False, cache_implementation="static").tolist()[0]
""",
    "accelerate": """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True, dynamo_backend="inductor" if {ours} else "no")
model = linear_model()
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
model, optimizer, rows = accelerator.prepare(model, optimizer, batches())
losses = []
for x in rows:
    loss = ((model(x) - 1) ** 2).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
""",
    "lightning": """
try:
    import lightning
except ImportError:
    import pytorch_lightning as lightning
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.losses = linear_model(), []
    def forward(self, x):
        return self.net(x)
    def training_step(self, batch, index):
        loss = ((self(batch) - 1) ** 2).mean()
        self.losses.append(loss.item())
        return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)
module = Module()
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
lightning.Trainer(max_epochs=1, accelerator="cpu", **quiet).fit(torch.compile(module), batches())
losses = module.losses
""",
    "diffusers": """
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
blocks = dict(down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
unet = UNet2DModel(sample_size=8, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4, attention_head_dim=4, **blocks)
pipeline = DDPMPipeline(torch.compile(unet, mode="reduce-overhead", fullgraph=True), DDPMScheduler(num_train_timesteps=10))
pipeline.set_progress_bar_config(disable=True)
noise = torch.Generator().manual_seed(0)
losses = pipeline(batch_size=1, generator=noise, num_inference_steps=3, output_type="np").images.flatten().tolist()
""",
    "torchtune": """
from torchtune.models.llama3 import llama3
from torchtune.training import compile_model
sizes = dict(num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=32, max_seq_len=64)
model = llama3(vocab_size=64, **sizes)
compile_model(model, verbose=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tokens, losses = torch.randint(0, 64, (4, 2, 17), generator=torch.Generator().manual_seed(1)), []
for batch in tokens:
    logits = model(batch[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
""",
}
_NEEDS = {"torchtune": "torchao"}
_GRAPHS = {"transformers, static cache": 2}  # the prompt's and the tokens'
_OTHER_NAMES = {"lightning": "pytorch_lightning"}


@pytest.mark.parametrize("library", _LOOPS)
def test_loops_of_libraries(fresh_python, library):
    name = library.split(",")[0]
    if all(importlib.util.find_spec(module) is None for module in (name, _OTHER_NAMES.get(name, name))):
        pytest.skip(f"{library} is not installed")
    if library in _NEEDS and importlib.util.find_spec(_NEEDS[library]) is None:
        pytest.skip(f"{_NEEDS[library]}, which {library} needs, is not installed")

    def run(ours):
        output = fresh_python((_BEGINNING + _LOOPS[library]).replace("{ours}", str(ours)) + _END)
        return json.loads(output.rpartition("RESULT ")[2])

    losses, graphs, breaks, bugs = run(True)
    assert losses == pytest.approx(run(False)[0], rel=1e-4, abs=1e-4)
    assert (graphs, breaks, bugs) == (_GRAPHS.get(library, 1), 0, 0)
