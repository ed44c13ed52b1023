"""Which layer runs in which precision: what each layer loses, and the best choice for all."""
