/* Let one call of a kind fail, or it and all later ones; compiled by every_call.py, loaded through LD_PRELOAD.

The state is a file that every process maps, so calls are counted over a command and all of its children. Calls on files
count if the file is in the folder `under`; allocations if they are large. While `at` is 0 nothing fails, and each call
is listed in the file LIST of the same folder as the state. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, OPEN, WRITE, FSYNC, RENAME, UNLINK, LOCK, FORK, MEMORY };

struct state { /* as LAYOUT in every_call.py */
    int kind, error, lasting, besides; /* besides: the process that never fails */
    long at, count, failed, large;
    char under[1024];
};

static struct state *state;
static const char *list; /* its path: a process may close all files that it has inherited */

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("DISENT_FAILING_CALLS"), *log = getenv("DISENT_LISTED_CALLS");
    list = log ? strdup(log) : "/dev/null";
    int opened = file ? syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC) : -1;
    if (opened < 0)
        return;
    void *mapped = (void *)syscall(SYS_mmap, NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    syscall(SYS_close, opened);
    if (mapped != MAP_FAILED)
        state = mapped;
}

static int counts(int kind) { return state && state->kind == kind && state->besides != (int)syscall(SYS_getpid); }

/* Count a call; return whether it fails, with errno set. */
static int fails(const char *call, const char *file) {
    long count = __atomic_add_fetch(&state->count, 1, __ATOMIC_SEQ_CST);
    if (state->at == 0) {
        char line[PATH_MAX + 64];
        int before = errno, opened = syscall(SYS_openat, AT_FDCWD, list, O_WRONLY | O_APPEND | O_CLOEXEC);
        syscall(SYS_write, opened, line, snprintf(line, sizeof line, "%s %s\n", call, file));
        syscall(SYS_close, opened);
        errno = before;
        return 0;
    }
    if (count != state->at && !(state->lasting && count > state->at))
        return 0;
    __atomic_add_fetch(&state->failed, 1, __ATOMIC_SEQ_CST);
    errno = state->error;
    return 1;
}

static int is_under(const char *path) {
    size_t length = strlen(state->under);
    return strncmp(path, state->under, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int fails_at(int kind, const char *call, int folder, const char *path) {
    char whole[2 * PATH_MAX] = "";
    if (!counts(kind) || !path)
        return 0;
    if (path[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, whole, PATH_MAX);
        if (length < 0)
            return 0;
        whole[length] = '/', whole[length + 1] = 0;
    }
    strncat(whole, path, PATH_MAX - 1);
    return is_under(whole) && fails(call, whole);
}

static int fails_on(int kind, const char *call, int descriptor) {
    char link[64], path[PATH_MAX];
    if (!counts(kind))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    int before = errno;
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0)
        return 0;
    path[length] = 0;
    return is_under(path) && fails(call, path);
}

static int fails_with(int kind, const char *call, size_t bytes) {
    char size[32];
    if (!counts(kind) || (long)bytes < state->large)
        return 0;
    snprintf(size, sizeof size, "%zu", bytes);
    return fails(call, size);
}

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
#define ON_DESCRIPTOR(kind, type, name, parameters, arguments) \
    type name parameters { return fails_on(kind, #name, descriptor) ? -1 : NEXT(name) arguments; }
#define ON_PATH(kind, name, parameters, folder, path, arguments) \
    int name parameters { return fails_at(kind, #name, folder, path) ? -1 : NEXT(name) arguments; }

#define FOR_WRITING(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT))
#define OPENS(name, parameters, folder, arguments, last) \
    int name parameters { \
        va_list rest; \
        va_start(rest, last); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return FOR_WRITING(flags) && fails_at(OPEN, #name, folder, path) ? -1 : NEXT(name) arguments; \
    }
OPENS(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode), flags)
OPENS(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode), flags)
OPENS(openat, (int folder, const char *path, int flags, ...), folder, (folder, path, flags, mode), flags)
OPENS(openat64, (int folder, const char *path, int flags, ...), folder, (folder, path, flags, mode), flags)
#define OPENS_STREAM(name) \
    FILE *name(const char *path, const char *mode) { \
        return strpbrk(mode, "wa+") && fails_at(OPEN, #name, AT_FDCWD, path) ? NULL : NEXT(name)(path, mode); \
    }
OPENS_STREAM(fopen)
OPENS_STREAM(fopen64)
ON_PATH(OPEN, mkdir, (const char *path, mode_t mode), AT_FDCWD, path, (path, mode))
ON_PATH(OPEN, mkdirat, (int folder, const char *path, mode_t mode), folder, path, (folder, path, mode))

ON_DESCRIPTOR(WRITE, ssize_t, write, (int descriptor, const void *bytes, size_t count), (descriptor, bytes, count))
ON_DESCRIPTOR(WRITE, ssize_t, pwrite, (int descriptor, const void *bytes, size_t count, off_t at), (descriptor, bytes, count, at))
ON_DESCRIPTOR(WRITE, ssize_t, pwrite64, (int descriptor, const void *bytes, size_t count, off64_t at), (descriptor, bytes, count, at))
ON_DESCRIPTOR(WRITE, ssize_t, writev, (int descriptor, const struct iovec *parts, int count), (descriptor, parts, count))
ON_DESCRIPTOR(WRITE, int, ftruncate, (int descriptor, off_t length), (descriptor, length))
ON_DESCRIPTOR(WRITE, int, ftruncate64, (int descriptor, off64_t length), (descriptor, length))
ssize_t sendfile(int descriptor, int from, off_t *at, size_t count) {
    return fails_on(WRITE, "sendfile", descriptor) ? -1 : syscall(SYS_sendfile, descriptor, from, at, count);
}
ssize_t sendfile64(int descriptor, int from, off64_t *at, size_t count) { return sendfile(descriptor, from, at, count); }
ssize_t copy_file_range(int from, off64_t *at, int descriptor, off64_t *to, size_t count, unsigned flags) {
    return fails_on(WRITE, "copy_file_range", descriptor) ? -1 : syscall(SYS_copy_file_range, from, at, descriptor, to, count, flags);
}
int posix_fallocate(int descriptor, off_t at, off_t length) {
    return fails_on(WRITE, "posix_fallocate", descriptor) ? errno : NEXT(posix_fallocate)(descriptor, at, length);
}

ON_DESCRIPTOR(FSYNC, int, fsync, (int descriptor), (descriptor))
ON_DESCRIPTOR(FSYNC, int, fdatasync, (int descriptor), (descriptor))

ON_PATH(RENAME, rename, (const char *from, const char *to), AT_FDCWD, to, (from, to))
ON_PATH(RENAME, renameat, (int a, const char *from, int b, const char *to), b, to, (a, from, b, to))
ON_PATH(RENAME, renameat2, (int a, const char *from, int b, const char *to, unsigned how), b, to, (a, from, b, to, how))
ON_PATH(RENAME, link, (const char *from, const char *to), AT_FDCWD, to, (from, to))
ON_PATH(RENAME, symlink, (const char *from, const char *to), AT_FDCWD, to, (from, to))

ON_PATH(UNLINK, unlink, (const char *path), AT_FDCWD, path, (path))
ON_PATH(UNLINK, remove, (const char *path), AT_FDCWD, path, (path))
ON_PATH(UNLINK, rmdir, (const char *path), AT_FDCWD, path, (path))
ON_PATH(UNLINK, unlinkat, (int folder, const char *path, int flags), folder, path, (folder, path, flags))

ON_DESCRIPTOR(LOCK, int, flock, (int descriptor, int operation), (descriptor, operation))
#define IS_LOCK(command) \
    ((command) == F_SETLK || (command) == F_SETLKW || (command) == F_OFD_SETLK || (command) == F_OFD_SETLKW)
#define CONTROLS(name) \
    int name(int descriptor, int command, ...) { \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        return IS_LOCK(command) && fails_on(LOCK, #name, descriptor) ? -1 : NEXT(name)(descriptor, command, argument); \
    }
CONTROLS(fcntl)
CONTROLS(fcntl64)

pid_t fork(void) { return counts(FORK) && fails("fork", "") ? -1 : NEXT(fork)(); }
pid_t vfork(void) { return fork(); } /* a child of vfork may not return from here */
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                char *const arguments[], char *const environment[]) {
    return counts(FORK) && fails("posix_spawn", path) ? errno
                                                     : NEXT(posix_spawn)(pid, path, actions, attributes, arguments, environment);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    return counts(FORK) && fails("thread", "") ? errno : NEXT(pthread_create)(thread, attributes, run, argument);
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void *malloc(size_t bytes) { return fails_with(MEMORY, "malloc", bytes) ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) {
    return fails_with(MEMORY, "calloc", count * bytes) ? NULL : __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) { return fails_with(MEMORY, "realloc", bytes) ? NULL : __libc_realloc(old, bytes); }
void *aligned_alloc(size_t at, size_t bytes) { return fails_with(MEMORY, "aligned_alloc", bytes) ? NULL : __libc_memalign(at, bytes); }
int posix_memalign(void **result, size_t at, size_t bytes) {
    void *got = fails_with(MEMORY, "posix_memalign", bytes) ? NULL : __libc_memalign(at, bytes);
    *result = got ? got : *result;
    return got ? 0 : ENOMEM;
}
void *mmap(void *at, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
    if (flags & MAP_ANONYMOUS && protection != PROT_NONE && fails_with(MEMORY, "mmap", bytes))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, descriptor, offset);
}
void *mmap64(void *at, size_t bytes, int protection, int flags, int descriptor, off64_t offset) {
    return mmap(at, bytes, protection, flags, descriptor, offset);
}
