"""One inference of an ncnn network with empty weights, between the marks of QEMU's profiler.

Runs on an emulated board with the settings of ncnn's benchmark: light mode, pool allocators without a size
limit, input of 0.01. Arguments: the .param file, the input's size in pixels, and the number of threads.
"""

import contextlib
import os
import sys

import ncnn

WARM_CACHES, START, END = 7777776, 7777777, 7777778


def mark(number):
    """A system call without effect that the profiler recognises."""
    with contextlib.suppress(OSError):
        os.close(number)


def main(param, size, threads):
    net = ncnn.Net()
    net.opt.num_threads = threads
    net.opt.lightmode = True
    blobs, workspace = ncnn.UnlockedPoolAllocator(), ncnn.PoolAllocator()
    for allocator in (blobs, workspace):
        if hasattr(allocator, "set_size_compare_ratio"):
            allocator.set_size_compare_ratio(0.0)
    net.opt.blob_allocator, net.opt.workspace_allocator = blobs, workspace
    if net.load_param(param) != 0 or net.load_model(ncnn.DataReaderFromEmpty()) != 0:
        sys.exit(f"ncnn {ncnn.__version__} cannot load {param}")
    image = ncnn.Mat(size, size, 3)
    image.fill(0.01)

    def infer():
        extractor = net.create_extractor()
        extractor.input(net.input_names()[0], image)
        for name in net.output_names():
            status, _ = extractor.extract(name)
            if status != 0:
                sys.exit(f"ncnn {ncnn.__version__} fails at {name} of {param}")

    mark(WARM_CACHES)
    infer()
    mark(START)
    infer()
    mark(END)
    sys.stdout.flush()
    os._exit(0)  # destructors of pool allocators warn about networks that still exist


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
