"""Checks the model that predicts a board's speed: docs/prediction.md describes the model."""
