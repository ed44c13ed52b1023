"""The words of decoder=. harness/accuracy/decoders/ has what they do."""

from __future__ import annotations

CLASSIFIER = "classifier"  # for networks whose output is a score per class
NO_DECODER = "none"  # for outputs that nothing here reads

DECODERS = (
    *("yolov5", "yolov6", "yolov8", "yolov10", "yolox", "yolo_nas"),
    *("yolov5_heads", "yolov7_heads", "yolov8_heads"),
    *("nanodet", "picodet", "nanodet_plus", "fastestdet", "centernet"),
    *("ssd", "ultraface", "yunet", "blazeface"),
    CLASSIFIER,
    NO_DECODER,
)
