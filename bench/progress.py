"""Progress with time left: one live line on a terminal, else a line now and then."""

import sys
import time


class Progress:
    def __init__(self, what, total, stream=None, every_s=15.0):
        self.what, self.total, self.done = what, total, 0
        self.stream = stream or sys.stderr
        self.begin = self.last = time.monotonic()
        self.every_s = 0.2 if self.stream.isatty() else every_s

    def start(self):
        """Time counts from here on, where what came before is no measure of what follows."""
        self.begin = time.monotonic()

    def left(self, now):
        """Seconds, from the mean of what is done."""
        return (now - self.begin) / self.done * (self.total - self.done) if self.done else 0.0

    def advance(self, detail=""):
        self.done += 1
        now = time.monotonic()
        if now - self.last < self.every_s and self.done < self.total:
            return
        self.last = now
        text = f"{self.what}: {self.done} of {self.total}, {self.left(now):.0f} s left  {detail}"
        if self.stream.isatty():
            end = "\n" if self.done >= self.total else ""
            self.stream.write(f"\r\x1b[K{text[:100]}{end}")
        else:
            self.stream.write(text.rstrip() + "\n")
        self.stream.flush()
