# Looks at `gleaner admin top` on a pseudo-terminal, and says what was seen. argv: the socket.
import fcntl, os, pty, re, select, struct, sys, termios, time

def start(lines, columns):
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.execvp("gleaner", ["gleaner", "admin", "--socket", sys.argv[1], "top"])
    return pid, fd

seen = ""

def until(fd, is_there, what, seconds=60):
    global seen
    ends = time.time() + seconds
    while not is_there(seen):
        ready, _, _ = select.select([fd], [], [], max(0, ends - time.time()))
        if not ready:
            sys.exit("no %s in %r" % (what, seen[-3000:]))
        try:
            part = os.read(fd, 65536)
        except OSError:
            part = b""
        if not part:
            sys.exit("ended before %s: %r" % (what, seen[-3000:]))
        seen += part.decode("utf-8", "replace")

def screens():
    # What was drawn, a list of lines each; the last one may be under way.
    plain = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", lambda m: "\f" if m.group(0) == "\x1b[H" else "", seen)
    return [[line.rstrip("\r") for line in screen.split("\n")] for screen in plain.split("\f")[1:-1]]

def ended(pid, fd):
    global seen
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part.decode("utf-8", "replace")
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)

def echoes(fd):
    modes = termios.tcgetattr(fd)[3]
    return bool(modes & termios.ECHO) and bool(modes & termios.ICANON)

told = []
pid, fd = start(30, 100)
until(fd, lambda text: len(re.findall("requests ", text)) >= 3, "three screens")
assert "\x1b[?1049h" in seen and not echoes(fd), "a screen of its own, single keys"
last = screens()[-1]
assert len(last) <= 30 and all(len(line) <= 100 for line in last), last
for part in ["gleaner ", "requests ", "memory ", "disk ", "feeds ", "jobs ", "statements ", "ORGANIZATION", "STATEMENT", "ada"]:
    assert any(part in line for line in last), (part, last)
told.append("shown")
seen = ""
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 8, 33, 0, 0))
def fits(_):
    drawn = screens()
    return len(drawn) > 1 and len(drawn[-1]) <= 8 and all(len(line) <= 33 for line in drawn[-1])
until(fd, fits, "a screen that fits")
told.append("resized")
os.write(fd, b"xyz")
seen = ""
until(fd, lambda text: "requests " in text, "a screen after keys that mean nothing")
told.append("undisturbed")
os.write(fd, b"q")
code = ended(pid, fd)
assert code == 0, code
assert echoes(fd), "the terminal is as it was"
assert seen.rstrip().endswith("\x1b[?25h\x1b[?1049l"), seen[-100:]
told.append("left")
# Ctrl-C.
seen = ""
pid, fd = start(24, 80)
until(fd, lambda text: "requests " in text, "a screen")
os.write(fd, b"\x03")
assert ended(pid, fd) == 0
assert seen.rstrip().endswith("\x1b[?25h\x1b[?1049l"), seen[-100:]
told.append("interrupted")
# A box that goes away is waited for. Whoever reads this line ends it, and says so.
seen = ""
pid, fd = start(24, 80)
until(fd, lambda text: "requests " in text, "a screen")
print(*told, flush=True)
until(fd, lambda text: "no appliance answers" in text, "that nobody answers")
os.write(fd, b"q")
assert ended(pid, fd) == 0
print("away", flush=True)
