"""Models with byte weights and activations, made by onnxruntime.quantization."""

import logging
import os

import provider
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


class Reader(CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def quantized(path, form, feeds_of):
    """The path of a quantized model, made once: in QDQ or QOperator form, calibrated with what `feeds_of` returns for a session and a seed."""
    target = path.replace(".onnx", f".{form.lower()}.onnx")
    if os.path.exists(target):
        return target
    logging.getLogger().setLevel(logging.ERROR)
    plain = provider.plain(path)
    reader = Reader([feeds_of(plain, seed) for seed in range(2)])
    numbers = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": form == "QDQ"}
    quantize_static(path, target + ".part", reader, quant_format=QuantFormat[form], **numbers)
    os.rename(target + ".part", target)
    return target
