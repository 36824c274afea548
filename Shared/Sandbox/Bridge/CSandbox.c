#define _GNU_SOURCE
#include "CSandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#error "the filter of system calls knows x86-64 and 64-bit ARM"
#endif

// Those by which a fault of the process itself ends it; and the timer's.
static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGFPE};

int csandbox_spawn(
    const char *path, const char *command, const char *limits, int descriptor, pid_t *process) {
    char *arguments[] = {"sandbox", (char *)command, (char *)limits, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    char *environment[] = {NULL};
    sigset_t all, blocked;
    int code = posix_spawn_file_actions_init(&files);
    if (code != 0) return code;
    code = posix_spawnattr_init(&attributes);
    if (code != 0) {
        posix_spawn_file_actions_destroy(&files);
        return code;
    }
    sigfillset(&all);
    // A stop of the service is told to the service, which may be in the midst of a task.
    blocked = all;
    for (size_t at = 0; at < sizeof faults / sizeof *faults; at++) sigdelset(&blocked, faults[at]);
    sigdelset(&blocked, SIGPROF);
    sigdelset(&blocked, SIGSYS);
    if ((code = posix_spawn_file_actions_adddup2(&files, descriptor, 0)) == 0
        && (code = posix_spawn_file_actions_addclose(&files, 1)) == 0
        && (code = posix_spawn_file_actions_addclosefrom_np(&files, 3)) == 0
        && (code = posix_spawnattr_setsigdefault(&attributes, &all)) == 0
        && (code = posix_spawnattr_setsigmask(&attributes, &blocked)) == 0
        && (code = posix_spawnattr_setpgroup(&attributes, 0)) == 0
        && (code = posix_spawnattr_setflags(
                &attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
            == 0)
        code = posix_spawn(process, path, &files, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return code;
}

int csandbox_end(pid_t process) {
    int status = 0;
    kill(process, SIGKILL);
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

int64_t csandbox_used(pid_t process) {
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return -1;
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

// The state of a process in the wall, which has one thread.
static struct {
    uint64_t memory;
    uint8_t *bytes;
    size_t count;
    size_t room;
    volatile sig_atomic_t busy;
} state;

static void write_all(void) {
    size_t from = 0;
    while (from < state.count) {
        ssize_t written = write(0, state.bytes + from, state.count - from);
        if (written > 0) from += (size_t)written;
        else if (written == 0 || errno != EINTR) _exit(1);
    }
    state.count = 0;
}

static void time_is_over(int signal) {
    (void)signal;
    if (!state.busy) return;
    write_all();
    _exit(csandbox_time);
}

// Runs on a stack of its own, since that of the program may be what ran out. A process that has no room for a part of
// its memory has failed for want of it; any other fault happens again after this, and ends the process.
static void fault(int signal) {
    (void)signal;
    size_t part = state.memory / 4;
    void *room = mmap(NULL, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_all();
    if (room == MAP_FAILED) _exit(csandbox_memory);
    munmap(room, part);
}

void csandbox_begin(int64_t microseconds) {
    struct itimerval timer = {{0, 0}, {microseconds / 1000000, microseconds % 1000000}};
    setitimer(ITIMER_PROF, &timer, NULL);
    state.busy = 1;
}

void csandbox_done(void) { state.busy = 0; }

void csandbox_put(const void *bytes, size_t count) {
    if (state.room - state.count < count) {
        size_t room = (state.count + count) * 2 + 4096;
        uint8_t *larger = realloc(state.bytes, room);
        if (larger == NULL) {
            write_all();
            _exit(csandbox_memory);
        }
        state.bytes = larger;
        state.room = room;
    }
    if (count > 0) memcpy(state.bytes + state.count, bytes, count);
    state.count += count;
}

size_t csandbox_waiting(void) { return state.count; }

void csandbox_flush(void) { write_all(); }

int csandbox_read(void *bytes, size_t count) {
    size_t from = 0;
    while (from < count) {
        ssize_t got = read(0, (uint8_t *)bytes + from, count - from);
        if (got > 0) from += (size_t)got;
        else if (got == 0 || errno != EINTR) return 0;
    }
    return 1;
}

static int limit(__rlimit_resource_t resource, uint64_t value) {
    struct rlimit bounds = {value, value};
    return setrlimit(resource, &bounds);
}

static int handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigfillset(&action.sa_mask);
    return sigaction(signal, &action, NULL);
}

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define CALL(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), ALLOW

// The calls that computing needs. Memory cannot become code, and a signal reaches this process only.
static int filter_calls(void) {
    struct sock_filter filter[] = {
        LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0), KILL, LOAD(nr),
        CALL(read), CALL(write), CALL(setitimer), CALL(munmap), CALL(mremap), CALL(madvise), CALL(brk), CALL(futex),
        CALL(clock_gettime), CALL(gettimeofday), CALL(getrandom), CALL(rt_sigreturn), CALL(rt_sigprocmask),
        CALL(restart_syscall), CALL(getpid), CALL(gettid), CALL(exit), CALL(exit_group),
        // Of abort(3).
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4), LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 0, 1), ALLOW, KILL,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        LOAD(args[2]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0), ALLOW, KILL,
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

const char *csandbox_enter(const csandbox_limits *limits) {
    struct stat threads;
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    // Beside the folder itself and that above it, one for each thread: proc(5).
    if (stat("/proc/self/task", &threads) != 0) return "/proc/self/task";
    if (threads.st_nlink != 3) return "one thread";
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return "PR_SET_PDEATHSIG";
    // It may have ended before.
    if (getppid() != limits->parent) return "the parent";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "PR_SET_NO_NEW_PRIVS";
    close(1);
    closefrom(3);
    state.memory = limits->memory;
    if (stack.ss_sp == NULL || sigaltstack(&stack, NULL) != 0) return "sigaltstack";
    for (size_t at = 0; at < sizeof faults / sizeof *faults; at++)
        if (handle(faults[at], fault, SA_ONSTACK | SA_RESETHAND) != 0) return "sigaction";
    if (handle(SIGPROF, time_is_over, SA_ONSTACK | SA_RESTART) != 0) return "sigaction";
    if (limit(RLIMIT_DATA, limits->memory) != 0) return "RLIMIT_DATA";
    if (limit(RLIMIT_NOFILE, 0) != 0) return "RLIMIT_NOFILE";
    if (limit(RLIMIT_NPROC, 0) != 0) return "RLIMIT_NPROC";
    if (limit(RLIMIT_STACK, 8 << 20) != 0) return "RLIMIT_STACK";
    if (limit(RLIMIT_CORE, 0) != 0) return "RLIMIT_CORE";
    if (limits->filter && filter_calls() != 0) return "PR_SET_SECCOMP";
    return NULL;
}
