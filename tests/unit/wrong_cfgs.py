"""Texts of cfgs with a line, a section or a key that the engine and harness refuse in the same words."""

from __future__ import annotations

_NET = "[net]\nwidth=8\nheight=8\nchannels=1\n"
_LONG = "x" * 70

# Text -> the line, and the message.
WRONG_WORDS = {
    _NET + "[convolutional]\nactivaton=leaky\n": (
        "6: [convolutional] there is no key 'activaton'; did you mean 'activation'?"
    ),
    _NET + "[conv]\nFilter=3\n": "6: [conv] there is no key 'Filter'; did you mean 'filters'?",
    _NET + "[conv]\nbatch normalise=1\n": (
        "6: [conv] there is no key 'batchnormalise'; did you mean 'batch_normalize'?"
    ),
    _NET + "[conv]\nxyzxyzxyz=1\nqqqqqqqqqq=1\n": "6: [conv] there is no key 'xyzxyzxyz'; remove it",
    _NET + "[conv]\nfilters=1\n\n# nothing\nb\xe4r=1\n": "9: [conv] there is no key 'b\\xe4r'; remove it",
    _NET + f"[conv]\n{_LONG}=1\n": f"6: [conv] there is no key '{_LONG[:60]}...'; remove it",
    _NET + "[maxpool]\nfilters=4\n": "6: [maxpool] there is no key 'filters'; remove it",
    _NET + "[avgpool]\nsize=4\n": "6: [avgpool] there is no key 'size'; remove it",
    _NET + "[yolo]\nanchor=4\n": "6: [yolo] there is no key 'anchor'; did you mean 'anchors'?",
    "[net]\nwidth=8\nheigth=8\nchannels=1\n[avgpool]\n": (
        "3: [net] there is no key 'heigth'; did you mean 'height'?"
    ),
    "[network]\nfilters=8\n[avgpool]\n": "2: [network] there is no key 'filters'; remove it",
    _NET + "[conv]\n[convolution]\n": (
        "6: [convolution] is not a section this engine knows; did you mean [convolutional]?"
    ),
    _NET + "[conv]\n[lstm_of_something]\n": (
        "6: [lstm_of_something] is not a section this engine knows; known are: convolutional connected "
        "deconvolutional maxpool avgpool upsample route shortcut scale_channels pool activation prelu exp "
        "sqrt abs neg add sub mul div minimum maximum reduce layer_norm reshape transpose slice pad resize "
        "matmul constant input reorg crop dropout cost softmax region yolo conv conn deconv max avg soft"
    ),
    _NET + "[conv\n": "5: '[conv' is not a section header; write [name]",
    _NET + "[conv] x\n": "5: '[conv]x' is not a section header; write [name]",
    _NET + "[conv] # x\nfilters 4\n": "6: 'filters4' is neither a [section], a key=value nor a # comment",
    _NET + "[conv]\n=4\n": "6: '=4' is neither a [section], a key=value nor a # comment",
    "width=3\n[net]\n": "1: 'width=3' stands before the first section, which must be [net]",
    "[conv]\nfilters=3\n": "1: [conv] comes first, but a cfg must start with [net]",
}
