"""Programs under QEMU: profiles, counts of instructions, descriptions of processors."""
