"""libtensorflow for a target: libraries, headers, and how CMake and pkg-config find them."""
