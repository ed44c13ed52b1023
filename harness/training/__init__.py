"""Training with simulated quantisation: TensorFlow computes as the engine does, and learns to lose less."""
