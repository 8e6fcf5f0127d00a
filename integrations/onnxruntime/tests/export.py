"""Networks with random weights as PyTorch exports them, one file each in a folder. Existing files are kept.

Arguments after the folder select networks by name. Needs torch, torchvision, transformers and onnxscript.
"""

import os
import sys
import warnings

import torch
import torchvision

warnings.simplefilter("ignore")


class UNet(torch.nn.Module):
    """The encoder and decoder of Ronneberger, Fischer and Brox, at half width."""

    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        nn = torch.nn

        def double(a, b):
            layers = [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
            return nn.Sequential(*layers, nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())

        self.down = nn.ModuleList(double(a, b) for a, b in zip((3, *widths), widths))
        self.bottom = double(widths[-1], 2 * widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * of, of, 2, stride=2) for of in reversed(widths))
        self.after = nn.ModuleList(double(2 * of, of) for of in reversed(widths))
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = torch.nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, after in zip(self.up, self.after):
            x = after(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)


class Detector(torch.nn.Module):
    """SSDLite's backbone and heads: scores and boxes of every anchor, before their selection."""

    def __init__(self):
        super().__init__()
        whole = torchvision.models.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
        self.backbone, self.head = whole.backbone, whole.head

    def forward(self, x):
        found = self.head(list(self.backbone(x).values()))
        return found["bbox_regression"], found["cls_logits"]


def images(size):
    return (torch.randn(2, 3, size, size),), ["x"]


def bert():
    from transformers import BertConfig, BertModel

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertModel(BertConfig(), add_pooling_layer=False)

        def forward(self, ids, mask):
            return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state

    return Model(), (torch.randint(0, 30000, (2, 128)), torch.ones(2, 128, dtype=torch.int64)), ["ids", "mask"]


def whisper(part):
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        encoder_layers=4, decoder_layers=4, d_model=384, encoder_attention_heads=6, decoder_attention_heads=6
    )
    config.encoder_ffn_dim = config.decoder_ffn_dim = 1536
    model = WhisperModel(config)
    if part == "encoder":

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = model.encoder

            def forward(self, x):
                return self.encoder(x).last_hidden_state

        return Model(), (torch.randn(2, 80, 3000),), ["x"]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = model.decoder

        def forward(self, ids, states):
            return self.decoder(input_ids=ids, encoder_hidden_states=states, use_cache=False).last_hidden_state

    return Model(), (torch.randint(0, 50000, (2, 24)), torch.randn(2, 1500, 384)), ["ids", "states"]


def t5():
    from transformers import T5Config, T5Model

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.t5 = T5Model(T5Config())

        def forward(self, ids, mask, after):
            return self.t5(
                input_ids=ids, attention_mask=mask, decoder_input_ids=after, use_cache=False
            ).last_hidden_state

    ids = torch.randint(0, 32000, (2, 64))
    return Model(), (ids, torch.ones(2, 64, dtype=torch.int64), ids[:, :16].clone()), ["ids", "mask", "after"]


def vision(name, size=224):
    def make():
        return getattr(torchvision.models, name)(weights=None), *images(size)

    return make


NETWORKS = {
    "resnet50": vision("resnet50"),
    "mobilenet_v3": vision("mobilenet_v3_large"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "convnext_tiny": vision("convnext_tiny"),
    "vit_b_16": vision("vit_b_16"),
    "ssdlite": lambda: (Detector(), *images(320)),
    "unet": lambda: (UNet(), *images(128)),
    "bert_base": bert,
    "whisper_encoder": lambda: whisper("encoder"),
    "whisper_decoder": lambda: whisper("decoder"),
    "t5_small": t5,
}


def main():
    folder, words = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    for name, make in NETWORKS.items():
        path = os.path.join(folder, f"{name}.onnx")
        if os.path.exists(path) or (words and not any(word in name for word in words)):
            continue
        torch.manual_seed(0)
        model, inputs, names = make()
        batch = torch.export.Dim("batch", min=1, max=64)
        shapes = tuple({0: batch} for _ in inputs)
        with torch.no_grad():
            model.eval()
            for weight in model.parameters():
                # A head of zeros would hide everything before it.
                if weight.dim() > 1 and not weight.any():
                    torch.nn.init.normal_(weight, std=0.05)
            torch.onnx.export(
                model,
                inputs,
                path + ".part",
                dynamo=True,
                opset_version=20,
                input_names=names,
                dynamic_shapes=shapes,
                external_data=False,
                verbose=False,
            )
        os.rename(path + ".part", path)
        print(f"{name}: {os.path.getsize(path) >> 20} MiB", flush=True)


main()
