# Types at `gleaner sql` on a pseudo-terminal, and says what was seen.
import os, pty, re, select, sys, time, fcntl, struct, termios

def start():
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("gleaner", ["gleaner", "sql"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    return pid, fd

seen = ""

def until(fd, pattern, seconds=60):
    global seen
    ends = time.time() + seconds
    while not re.search(pattern, seen, re.S):
        ready, _, _ = select.select([fd], [], [], max(0, ends - time.time()))
        if not ready:
            sys.exit("no %r in %r" % (pattern, seen))
        try:
            part = os.read(fd, 65536)
        except OSError:
            part = b""
        if not part:
            sys.exit("ended before %r: %r" % (pattern, seen))
        seen += part.decode("utf-8", "replace")

def typed(fd, text, pattern):
    global seen
    seen = ""
    os.write(fd, text.encode())
    until(fd, pattern)

told = []
pid, fd = start()
until(fd, "gleaner> ")
typed(fd, "SELECT 41 + 1 AS answer;\r", r"answer\s+42.*gleaner> ")
told.append("statement")
typed(fd, "SELECT repeat('x', 500) AS wide;\r", "….*gleaner> ")
assert all(len(line) <= 80 for line in re.findall(r"x[x…]*", seen)), seen
told.append("table")
typed(fd, "SELECT count(*) AS n FROM url_t\t", "url_tags")
typed(fd, ";\r", r"n\s+\d+.*gleaner> ")
told.append("completed")
typed(fd, "SELECT 1\r", "SELECT 1")
typed(fd, "AS second;\r", r"second\s+1\s.*gleaner> ")
told.append("continued")
typed(fd, "SELECT nothing FROM nowhere;\r", "gleaner: .*nowhere.*gleaner> ")
told.append("refused")
typed(fd, "\\d urls\r", "COLUMN.*domain.*gleaner> ")
told.append("described")
typed(fd, "SELECT 'never'\x03", "gleaner> ")
typed(fd, "SELECT 2 AS later;\r", r"later\s+2\s.*gleaner> ")
told.append("interrupted")
os.write(fd, b"\\q\r")
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
seen = ""
pid, fd = start()
until(fd, "gleaner> ")
typed(fd, "\x1b[A\x1b[A\r", r"later\s+2\s.*gleaner> ")
told.append("remembered")
os.write(fd, b"\x04")
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
told.append("left")
print(*told)
