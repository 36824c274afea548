/* Valgrind changes the mask in place, and ends where it is in read-only memory, as libdispatch's is. */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int sigsuspend(const sigset_t *mask) {
    sigset_t own = *mask;
    /* The kernel's mask has 64 bits. */
    return (int)syscall(SYS_rt_sigsuspend, &own, 8);
}
