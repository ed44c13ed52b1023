"""Reads a program's output from a connection in linear time, up to a limit."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fabric.runners import Remote, Result


class RemoteRunner(Remote):  # type: ignore[misc] # fabric has no types
    """Fabric's runner for programs without input, with the output returned as a whole."""

    read_chunk_size = 64 << 10

    def run(self, command: str, *, most_output: int, **options: Any) -> Result:
        """The result has `flooded`: whether the program printed more than `most_output` bytes on standard
        output and standard error together. Its output is no longer read then."""
        self._left = most_output
        result = super().run(command, **options)
        if result is not None:
            result.flooded = self._left < 0
        return result

    def read_proc_output(self, reader: Callable[[int], bytes]) -> Iterator[str]:
        """The decoded output. Invoke decodes pieces separately, which breaks characters at their borders."""
        decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        while data := reader(self.read_chunk_size):
            self._left -= len(data)
            if self._left < 0:
                self.channel.close()
                break
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)

    def respond(self, buffer_: Sequence[str]) -> None:
        """Does nothing. Invoke joins the whole output after every piece, for watchers, which takes quadratic
        time."""
