"""How a program's output is read from a connection: in time that grows with its length."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence

from fabric.runners import Remote


class RemoteRunner(Remote):  # type: ignore[misc] # fabric has no types
    """Runs a program as Fabric does, for callers that want its output as a whole and never answer it."""

    read_chunk_size = 64 << 10

    def read_proc_output(self, reader: Callable[[int], bytes]) -> Iterator[str]:
        """Text of what is read. Invoke decodes each piece by itself and spoils letters at their borders."""
        decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        while data := reader(self.read_chunk_size):
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)

    def respond(self, buffer_: Sequence[str]) -> None:
        """Nothing answers. Invoke joins all that has come, with every piece, for watchers to look at: the
        time for that grows with the square of the output's length."""
