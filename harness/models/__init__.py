"""The models that harness knows, and the download of their weights from the authors."""
