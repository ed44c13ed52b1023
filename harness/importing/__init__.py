"""Imports models of other formats: ONNX and TensorFlow Lite become an extended cfg with Darknet weights."""
