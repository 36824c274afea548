/// The wall around a process that handles what others sent, and the start of such a process.
///
/// A process in the wall has a socket as descriptor 0 and standard error as descriptor 2, and nothing else. It can
/// compute, allocate up to its limit, and read and write the two.
#ifndef CSANDBOX_H
#define CSANDBOX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    /// Bytes of memory that may be written: `RLIMIT_DATA`.
    uint64_t memory;
    /// Processor time of a task, in microseconds.
    int64_t microseconds;
    /// The process that started this one, whose end ends it.
    pid_t parent;
    /// 0 for limits without a filter of system calls.
    int filter;
} csandbox_limits;

/// Codes of exit: the time or the memory of a task ran out.
enum { csandbox_time = 91, csandbox_memory = 92 };

/// Starts a program with a command and its argument. It has the socket `descriptor` as its descriptor 0, standard
/// error, no environment and a process group of its own.
///
/// Returns 0, or a number of errno.
int csandbox_spawn(const char *path, const char *command, const char *limits, int descriptor, pid_t *process);

/// Closes the wall around this process, which must have one thread.
///
/// Returns NULL, or the name of what the system refuses, with errno.
const char *csandbox_enter(const csandbox_limits *limits);

/// Begins a task, which may take this many microseconds of processor time: then the process writes the answers that
/// wait, and ends with `csandbox_time`.
void csandbox_begin(int64_t microseconds);

/// Ends a task.
void csandbox_done(void);

/// Adds bytes to those that wait. Ends the process if there is no memory for them.
void csandbox_put(const void *bytes, size_t count);

/// The number of bytes that wait.
size_t csandbox_waiting(void);

/// Writes the bytes that wait. Ends the process if nobody reads them.
void csandbox_flush(void);

/// Reads exactly this many bytes. Returns 0 at the end of the stream.
int csandbox_read(void *bytes, size_t count);

/// Kills a process, and waits for its end. Returns the status of wait(2).
int csandbox_end(pid_t process);

/// Returns the processor time that a process has used, in microseconds; -1 if it cannot be told.
int64_t csandbox_used(pid_t process);

#endif
