// Sets the machine's clock for one process: the calls that read it add the seconds that stand in a file of eight bytes
// (CLOCK_SHIM). Clocks that nobody can set are left alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_timeofday)(struct timeval *, void *);
static volatile int64_t *offset;

__attribute__((constructor)) static void begin(void) {
    real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_timeofday = dlsym(RTLD_NEXT, "gettimeofday");
    const char *path = getenv("CLOCK_SHIM");
    if (!path) return;
    int file = open(path, O_RDONLY);
    if (file < 0) return;
    void *at = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) offset = at;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!real_gettime) real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_gettime(clock, time);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += *offset;
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    if (!real_timeofday) real_timeofday = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real_timeofday(time, zone);
    if (result == 0 && offset) time->tv_sec += *offset;
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
