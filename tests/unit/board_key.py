"""A public key made for tests, and its fingerprint as `ssh-keygen -lf` prints it."""

from __future__ import annotations

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICktF1vPMuzy5EQaRqzbgN72ldTZ47p7bqqokuev+7Ck"
FINGERPRINT = "SHA256:FVMw3zo+tJn8qrwMxq7ONjDhxAX+QQbMGCPH3Tuyyow"
