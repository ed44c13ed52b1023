"""How a program's output is read from a connection: in time that grows with its length, up to a limit."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fabric.runners import Remote, Result


class RemoteRunner(Remote):  # type: ignore[misc] # fabric has no types
    """Runs a program as Fabric does, for callers that want its output as a whole and never answer it."""

    read_chunk_size = 64 << 10

    def run(self, command: str, *, most_output: int, **options: Any) -> Result:
        """The result has `flooded`: whether the program printed more than so many bytes, on standard output
        and standard error together. It is not listened to any longer then."""
        self._left = most_output
        result = super().run(command, **options)
        if result is not None:
            result.flooded = self._left < 0
        return result

    def read_proc_output(self, reader: Callable[[int], bytes]) -> Iterator[str]:
        """Text of what is read. Invoke decodes each piece by itself and spoils letters at their borders."""
        decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        while data := reader(self.read_chunk_size):
            self._left -= len(data)
            if self._left < 0:
                self.channel.close()
                break
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)

    def respond(self, buffer_: Sequence[str]) -> None:
        """Nothing answers. Invoke joins all that has come, with every piece, for watchers to look at: the
        time for that grows with the square of the output's length."""
