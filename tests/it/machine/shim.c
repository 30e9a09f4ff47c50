// Stands between the box and the system's calls on files: writes a journal of everything that changes a file or a folder,
// and lets calls fail on demand. Loaded with LD_PRELOAD by the tests beside it, by nobody else.
//
// SHIM_ROOT      only what lies under this folder is seen
// SHIM_JOURNAL   where the journal goes; none: no journal
// SHIM_CONTROL   a file of one line, "GENERATION ERRNO SHORT SKIP COUNT OPS PART": calls of the kinds in OPS (letters, see
//                below) on paths that contain PART fail with ERRNO, after SKIP that do not, COUNT times. SHORT 1: a write
//                takes half of what it is given instead.
// SHIM_FIRED     gets one byte for each call that failed
//
// A record: kind (1 byte), file (8), a number (8), length of the first text (4), it, length of the second (4), it; little
// endian. Kinds: C created, W written at, T cut to, S synced, M folder made, R renamed, L linked, U unlinked, D folder
// removed. A file is told by its inode number, which counts from its creation on.
//
// Two things are not seen when they happen and are put down at the next call that is: a temporary file that was renamed
// by a system call of its own (rustix makes none through the C library), and a file of a worker's, which is taken in with
// all that it holds when the box gives it a name of its own.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root, *control_path, *fired_path;
static size_t root_len;
static int journal = -1;
static __thread int inside;

// The paths of files that the journal knows of, or that were there before it, by their hash: a table with open places (0) and
// left ones (1). Not by inode: its number is used again at once.
#define KNOWN_MAX (1 << 17)
static uint64_t known[KNOWN_MAX];

static uint64_t hash_of(const char *path) {
    uint64_t hash = 0xCBF29CE484222325ull;
    for (; *path; path++) hash = (hash ^ (unsigned char)*path) * 0x100000001B3ull;
    return hash | 2;
}

static uint64_t *known_place(uint64_t hash) {
    uint64_t at = hash * 0x9E3779B97F4A7C15ull >> 47;
    while (known[at] && known[at] != hash) at = (at + 1) % KNOWN_MAX;
    return &known[at];
}

static int is_known(const char *path) { return *known_place(hash_of(path)) == hash_of(path); }
static void know(const char *path) { *known_place(hash_of(path)) = hash_of(path); }
static void forget(const char *path) {
    uint64_t *place = known_place(hash_of(path));
    if (*place == hash_of(path)) *place = 1;
}

static int know_file(const char *path, const struct stat *found, int kind, struct FTW *at) {
    (void)found, (void)at;
    if (kind == FTW_F) know(path);
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    root = getenv("SHIM_ROOT");
    root_len = root ? strlen(root) : 0;
    control_path = getenv("SHIM_CONTROL");
    fired_path = getenv("SHIM_FIRED");
    const char *path = getenv("SHIM_JOURNAL");
    // Workers of SQL statements are programs of their own and see what they are given; the box alone is watched.
    if (path && root) {
        inside = 1;
        nftw(root, know_file, 16, FTW_PHYS);
        inside = 0;
        journal = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
}

static int is_seen(const char *path) { return root && path && strncmp(path, root, root_len) == 0; }

static int path_of(int fd, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
    if (n <= 0) return 0;
    out[n] = 0;
    return is_seen(out);
}

// A path as the caller means it, made absolute.
static int resolve(int dir, const char *path, char *out) {
    if (!path) return 0;
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
    } else if (dir == AT_FDCWD) {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here)) return 0;
        snprintf(out, PATH_MAX, "%.2000s/%.2000s", here, path);
    } else {
        char folder[PATH_MAX];
        if (!path_of(dir, folder)) return 0;
        snprintf(out, PATH_MAX, "%.2000s/%.2000s", folder, path);
    }
    return is_seen(out);
}

static void put(char kind, uint64_t file, uint64_t number, const void *one, uint32_t one_len, const void *two, uint32_t two_len) {
    if (journal < 0) return;
    char head[25];
    head[0] = kind;
    memcpy(head + 1, &file, 8);
    memcpy(head + 9, &number, 8);
    memcpy(head + 17, &one_len, 4);
    struct iovec parts[4] = {{head, 21}, {(void *)one, one_len}, {&two_len, 4}, {(void *)two, two_len}};
    // One call, and appended: readers see whole records, whatever the moment.
    syscall(SYS_writev, journal, parts, 4);
}

static int fails(char op, const char *path, int *is_short) {
    static long generation = -1, skip, count;
    if (!control_path) return 0;
    char line[512];
    int fd = syscall(SYS_openat, AT_FDCWD, control_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = syscall(SYS_read, fd, line, sizeof line - 1);
    syscall(SYS_close, fd);
    if (n <= 0) return 0;
    line[n] = 0;
    long new_generation, error, as_short, new_skip, new_count;
    char ops[32], part[256];
    if (sscanf(line, "%ld %ld %ld %ld %ld %31s %255s", &new_generation, &error, &as_short, &new_skip, &new_count, ops, part) != 7)
        return 0;
    if (generation != new_generation) {
        generation = new_generation;
        skip = new_skip;
        count = new_count;
    }
    if (!strchr(ops, op) || !strstr(path, part)) return 0;
    if (skip > 0) {
        skip--;
        return 0;
    }
    if (count <= 0) return 0;
    count--;
    if (fired_path) {
        int out = syscall(SYS_openat, AT_FDCWD, fired_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        syscall(SYS_write, out, &op, 1);
        syscall(SYS_close, out);
    }
    *is_short = as_short;
    return (int)error;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    return syscall(SYS_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_ino : 0;
}

static uint64_t inode_of(int fd) {
    struct stat found;
    return syscall(SYS_newfstatat, fd, "", &found, AT_EMPTY_PATH) == 0 ? found.st_ino : 0;
}

// Temporary files that were made and have not been renamed or removed yet, as far as is known.
#define DRAFTS_MAX 64
static struct {
    char path[PATH_MAX];
    uint64_t inode;
} drafts[DRAFTS_MAX];
static int draft_count;

static void begin_draft(const char *path, uint64_t inode) {
    const char *name = strrchr(path, '/');
    if (journal < 0 || !name || strncmp(name, "/.tmp", 5) || draft_count == DRAFTS_MAX) return;
    snprintf(drafts[draft_count].path, PATH_MAX, "%s", path);
    drafts[draft_count++].inode = inode;
}

static void end_draft(int at) { drafts[at] = drafts[--draft_count]; }

static void end_draft_at(const char *path) {
    for (int at = 0; at < draft_count; at++)
        if (!strcmp(drafts[at].path, path)) return end_draft(at);
}

// Puts down what has become of temporary files.
static void settle(void) {
    for (int at = draft_count - 1; at >= 0; at--) {
        const char *path = drafts[at].path;
        if (inode_at(path) == drafts[at].inode) continue;
        char folder[PATH_MAX], renamed[PATH_MAX] = "";
        snprintf(folder, PATH_MAX, "%.*s", (int)(strrchr(path, '/') - path), path);
        DIR *entries = opendir(folder);
        for (struct dirent *entry; entries && (entry = readdir(entries));)
            if (entry->d_ino == drafts[at].inode) snprintf(renamed, PATH_MAX, "%.2000s/%.255s", folder, entry->d_name);
        if (entries) closedir(entries);
        forget(path);
        if (*renamed) {
            put('R', 0, 0, path, strlen(path), renamed, strlen(renamed));
            know(renamed);
        } else {
            put('U', 0, 0, path, strlen(path), 0, 0);
        }
        end_draft(at);
    }
}

// Takes in a file that somebody else has written, with what it holds.
static void adopt(const char *path) {
    struct stat found;
    if (journal < 0 || syscall(SYS_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) || !S_ISREG(found.st_mode)) return;
    if (is_known(path)) return;
    put('C', found.st_ino, 0, path, strlen(path), 0, 0);
    know(path);
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *part = malloc(1 << 20);
    off_t at = 0;
    for (ssize_t n; fd >= 0 && part && (n = syscall(SYS_pread64, fd, part, 1 << 20, at)) > 0; at += n)
        put('W', found.st_ino, at, part, n, 0, 0);
    free(part);
    if (fd >= 0) syscall(SYS_close, fd);
}

// Begins a call on `path`: takes the lock, and fails it if it is to.
#define BEGIN(op, path)                                                                                                    \
    int is_short = 0;                                                                                                      \
    (void)is_short;                                                                                                        \
    pthread_mutex_lock(&lock);                                                                                             \
    inside = 1;                                                                                                            \
    settle();                                                                                                              \
    int fault = fails(op, path, &is_short);                                                                                \
    if (fault && !is_short) {                                                                                              \
        END();                                                                                                             \
        errno = fault;                                                                                                     \
        return -1;                                                                                                         \
    }
#define END() (inside = 0, pthread_mutex_unlock(&lock))

static int open_at(int dir, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    if (inside || !resolve(dir, path, whole)) return syscall(SYS_openat, dir, path, flags, mode);
    BEGIN(flags & O_CREAT ? 'C' : 'O', whole);
    uint64_t before = inode_at(whole);
    int fd = syscall(SYS_openat, dir, path, flags, mode);
    int error = errno;
    if (fd >= 0 && (flags & O_CREAT) && !before) {
        put('C', inode_of(fd), 0, whole, strlen(whole), 0, 0);
        know(whole);
        begin_draft(whole, inode_of(fd));
    }
    if (fd >= 0 && (flags & O_TRUNC) && before) put('T', inode_of(fd), 0, 0, 0, 0, 0);
    END();
    errno = error;
    return fd;
}

#define MODE()                                                                                                             \
    mode_t mode = 0;                                                                                                       \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                                   \
        va_list rest;                                                                                                      \
        va_start(rest, flags);                                                                                             \
        mode = va_arg(rest, mode_t);                                                                                       \
        va_end(rest);                                                                                                      \
    }

int open(const char *path, int flags, ...) { MODE(); return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(); return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE(); return open_at(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE(); return open_at(dir, path, flags | O_LARGEFILE, mode); }

ssize_t write(int fd, const void *data, size_t bytes) {
    char path[PATH_MAX];
    if (inside || !path_of(fd, path)) return syscall(SYS_write, fd, data, bytes);
    BEGIN('W', path);
    if (is_short && bytes > 1) bytes /= 2;
    off_t at = fcntl(fd, F_GETFL) & O_APPEND ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
    ssize_t done = syscall(SYS_write, fd, data, bytes);
    int error = errno;
    if (done > 0) put('W', inode_of(fd), at, data, done, 0, 0);
    END();
    errno = error;
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (inside || !path_of(fd, path)) return syscall(SYS_writev, fd, parts, count);
    // As short writes may be: the first part that has anything.
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len) return write(fd, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

static ssize_t write_at(int fd, const void *data, size_t bytes, off_t at) {
    char path[PATH_MAX];
    if (inside || !path_of(fd, path)) return syscall(SYS_pwrite64, fd, data, bytes, at);
    BEGIN('W', path);
    if (is_short && bytes > 1) bytes /= 2;
    ssize_t done = syscall(SYS_pwrite64, fd, data, bytes, at);
    int error = errno;
    if (done > 0) put('W', inode_of(fd), at, data, done, 0, 0);
    END();
    errno = error;
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return write_at(fd, data, bytes, at); }
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) { return write_at(fd, data, bytes, at); }

static ssize_t read_at(int fd, void *data, size_t bytes, off_t at) {
    char path[PATH_MAX];
    if (inside || !control_path || !path_of(fd, path)) return syscall(SYS_pread64, fd, data, bytes, at);
    BEGIN('G', path);
    END();
    return syscall(SYS_pread64, fd, data, bytes, at);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t at) { return read_at(fd, data, bytes, at); }
ssize_t pread64(int fd, void *data, size_t bytes, off64_t at) { return read_at(fd, data, bytes, at); }

// Whoever copies with these reads and writes instead.
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned flags) {
    (void)from, (void)from_at, (void)to, (void)to_at, (void)bytes, (void)flags;
    errno = ENOSYS;
    return -1;
}

static int cut(int fd, off_t length) {
    char path[PATH_MAX];
    if (inside || !path_of(fd, path)) return syscall(SYS_ftruncate, fd, length);
    BEGIN('T', path);
    int done = syscall(SYS_ftruncate, fd, length), error = errno;
    if (done == 0) put('T', inode_of(fd), length, 0, 0, 0, 0);
    END();
    errno = error;
    return done;
}

int ftruncate(int fd, off_t length) { return cut(fd, length); }
int ftruncate64(int fd, off64_t length) { return cut(fd, length); }

static int sync_with(long call, int fd) {
    char path[PATH_MAX];
    if (inside || !path_of(fd, path)) return syscall(call, fd);
    BEGIN('S', path);
    // The journal is the disk here: the real one is not waited for.
    put('S', inode_of(fd), 0, 0, 0, 0, 0);
    END();
    return 0;
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

static int rename_at(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    char one[PATH_MAX], two[PATH_MAX];
    if (inside || !resolve(from_dir, from, one) || !resolve(to_dir, to, two))
        return syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
    BEGIN('R', two);
    adopt(one);
    int done = syscall(SYS_renameat2, from_dir, from, to_dir, to, flags), error = errno;
    if (done == 0) {
        put('R', 0, 0, one, strlen(one), two, strlen(two));
        end_draft_at(one);
        forget(one);
        know(two);
    }
    END();
    errno = error;
    return done;
}

int rename(const char *from, const char *to) { return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return rename_at(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return rename_at(a, from, b, to, flags); }

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    char one[PATH_MAX], two[PATH_MAX];
    if (inside || !resolve(from_dir, from, one) || !resolve(to_dir, to, two))
        return syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
    BEGIN('L', two);
    adopt(one);
    int done = syscall(SYS_linkat, from_dir, from, to_dir, to, flags), error = errno;
    if (done == 0) {
        put('L', 0, 0, one, strlen(one), two, strlen(two));
        know(two);
    }
    END();
    errno = error;
    return done;
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

static int make(int dir, const char *path, mode_t mode) {
    char whole[PATH_MAX];
    if (inside || !resolve(dir, path, whole)) return syscall(SYS_mkdirat, dir, path, mode);
    BEGIN('M', whole);
    int done = syscall(SYS_mkdirat, dir, path, mode), error = errno;
    if (done == 0) put('M', inode_at(whole), 0, whole, strlen(whole), 0, 0);
    END();
    errno = error;
    return done;
}

int mkdir(const char *path, mode_t mode) { return make(AT_FDCWD, path, mode); }
int mkdirat(int dir, const char *path, mode_t mode) { return make(dir, path, mode); }

int unlinkat(int dir, const char *path, int flags) {
    char whole[PATH_MAX];
    if (inside || !resolve(dir, path, whole)) return syscall(SYS_unlinkat, dir, path, flags);
    BEGIN('U', whole);
    int done = syscall(SYS_unlinkat, dir, path, flags), error = errno;
    if (done == 0) {
        put(flags & AT_REMOVEDIR ? 'D' : 'U', 0, 0, whole, strlen(whole), 0, 0);
        end_draft_at(whole);
        forget(whole);
    }
    END();
    errno = error;
    return done;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
