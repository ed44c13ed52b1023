"""Accuracy on the host: pictures to tensors, head tensors to detections, detections to scores."""
