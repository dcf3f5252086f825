"""What an application does with messages: the part of Gpu that exchanges them with other processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from firsttouch.program.execution.arrays import Array, ByteRange
from firsttouch.program.execution.exchange import Exchange, Message
from firsttouch.program.execution.workspace import Workspace


class Messenger:
    """Exchanges messages between the processes of an application. They are parts of buffers of the role `exchange`."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.exchanges = Exchange()
        """How messages are carried."""

    def _before_launch(self) -> None:
        raise NotImplementedError

    @contextmanager
    def exchange(self) -> Iterator[None]:
        """A scope that packs data, sends and receives them, and unpacks what arrives; timed as one exchange."""
        self._before_launch()
        begin = self.workspace.device.record()
        yield
        self.exchanges.spans.append((begin, self.workspace.device.record()))

    def send_and_receive(self, outgoing: Sequence[Message], incoming: Sequence[Message]) -> None:
        """Send and receive messages, each a process (by its number, or this one itself) and bytes of a buffer. The n-th
        message to a process is the n-th that it receives from this one, of the same size.
        """
        self._lend(outgoing, incoming)
        self.exchanges.carry(self.workspace, outgoing, incoming)

    def receive_rows(self, incoming: Array, peers: Sequence[int], room: int) -> None:
        """Begin to receive at most `room` rows from each of other processes, those of the i-th from row i * room of an
        array on. The next call of send_rows, by all of them, ends it.
        """
        places = [(peer, incoming[i * room : (i + 1) * room]) for i, peer in enumerate(peers)]
        self._lend([], places)
        self.exchanges.begin(self.workspace, places)

    def send_rows(self, outgoing: Sequence[ByteRange], incoming: Array, peers: Sequence[int], room: int) -> list[int]:
        """Send each of other processes rows of a buffer, and receive those that it sends, the i-th from row i * room of
        an array on. Returns their numbers. All of them name this process in turn. Unless receives have begun, they
        first tell each other the numbers.

        Raises:
            RuntimeError: there are more rows than there is room for.
        """
        sent = [*zip(peers, outgoing, strict=True)]
        if self.exchanges.has_begun:
            self._lend(sent, [])
            return [size // incoming.row_bytes for size in self.exchanges.finish(sent)]
        counts = [(part.end - part.start) // part.array.row_bytes for part in outgoing]
        incoming_counts = self.exchanges.swap_numbers(peers, counts)
        if max([*counts, *incoming_counts], default=0) > room:
            raise RuntimeError(f"{max([*counts, *incoming_counts])} rows exceed a message, which has room for {room}")
        starts = range(0, len(incoming_counts) * room, room)
        self.send_and_receive(
            sent, [(peer, incoming[at : at + n]) for peer, at, n in zip(peers, starts, incoming_counts, strict=True)]
        )
        return incoming_counts

    def _lend(self, outgoing: Sequence[Message], incoming: Sequence[Message]) -> None:
        """Wait for work that uses bytes that are to leave, or to be overwritten by those that arrive."""
        for _, part in outgoing:
            self.workspace.lend(part, arrives=False)
        for _, part in incoming:
            self.workspace.lend(part, arrives=True)
        self.workspace.wait()

    @contextmanager
    def messages(self, like: Array, counts: Sequence[int]) -> Iterator[list[ByteRange]]:
        """A buffer for each number of rows, allocated like one of the role `exchange` for as long as the scope."""
        shapes = [(max(1, count), *like.shape[1:]) for count in counts]
        arrays = [Array(replace(like.declaration, shape=shape), like.key) for shape in shapes]
        self.workspace.allocate(arrays)
        yield [array[:count] for array, count in zip(arrays, counts, strict=True)]
        self.workspace.release(arrays)

    def total(self, number: int) -> int:
        """The sum of a number over all processes of the application, modulo 2^64."""
        return self.exchanges.total(number)
