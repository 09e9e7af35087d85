"""Reading from a client that may be silent, or send a byte now and then."""

import io
import socket
import time


class SocketReader(io.RawIOBase):
    """Reads a socket until a deadline, which no byte puts off.

    silence_s: without a byte, after which reading fails before the deadline.
    """

    def __init__(self, connection: socket.socket, silence_s: float) -> None:
        self.silence_s = silence_s
        self._connection = connection
        self._deadline = 0.0

    def allow(self, seconds: float) -> None:
        """Set the deadline to some seconds from now."""
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        """Return whether this is for reading, which io asks."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # what io passes
        """Fill the buffer with what has arrived; return the number of bytes.

        Raises:
            TimeoutError: there is none until the deadline, or for too long.
        """
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(min(self.silence_s, left_s))
        return self._connection.recv_into(buffer)
