/// Lua 5.4 behind calls that never jump over their caller.
///
/// Lua reports errors by `longjmp`, which must not cross frames of Swift. So every call of Lua that can fail is made
/// here, below a `lua_pcall`. Values go in and out as JSON, and a function of the host returns before an error that it
/// reports is raised.
///
/// Only JSON without any fault is read; the host says what is wrong with another text, or mends it.
#ifndef CLUA_H
#define CLUA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct clua clua;

/// The bounds of a program, and of each of its runs.
typedef struct {
    /// Bytes in use, the result included.
    size_t memory;
    /// Instructions of one run; 64 bytes that are allocated count as one, 16 of a large block. They do not see the work
    /// of functions of C, such as comparisons of long texts: the processor time of the process bounds it.
    int64_t steps;
    /// Bytes of the result.
    size_t output;
    /// The depth of the result.
    int depth;
} clua_limits;

enum clua_status {
    clua_done,
    /// The program is at fault.
    clua_failed,
    /// It reached a limit.
    clua_limited,
    /// Its result has a number that is not an integer.
    clua_inexact,
    /// The event is not JSON, deeper than its limit, has more values, or a name twice in an object.
    clua_unread,
};

/// UTF-8 that the host keeps during a call.
typedef struct {
    const void *bytes;
    size_t count;
} clua_bytes;

/// The values of a run, in JSON: the two arguments of `map`, and the global `constants`.
typedef struct {
    clua_bytes event, record, constants;
    /// The depth of the event.
    int depth;
    /// The most values in it.
    size_t entries;
} clua_input;

enum clua_kind { clua_nil, clua_integer, clua_text, clua_decimal, clua_error };

/// An argument or the result of a function of the host.
typedef struct {
    int kind;
    int64_t integer;
    /// Arguments: valid during the call.
    const char *text;
    size_t count;
} clua_value;

/// The most arguments of a function of the host, and bytes of a text among them or of its result.
#define CLUA_ARGUMENTS 4
#define CLUA_TEXT 8192

/// Computes a function of the host. `text` has room for `CLUA_TEXT` bytes: those of the result, or of an error.
typedef void (*clua_host)(void *context, int function, const clua_value *arguments, int count, clua_value *result,
                          char *text);

/// Makes a state without a program; null without memory.
clua *clua_new(const clua_limits *limits, clua_host host);
void clua_free(clua *state);

/// Compiles the library: a chunk whose arguments are a table with the functions of the host by their names (in the
/// order of their numbers, separated by spaces) and with `text`; null; and the metatable of
/// decimals. It returns the metatable of the globals of programs. Then compiles the program. On failure see
/// `clua_message`.
///
/// `shape` is a value in JSON like a result. Where it has a list, with the shape of all elements, an empty table is a
/// list, and where it has a number, the text of a number is a number.
int clua_load(clua *state, const clua_bytes *library, const char *functions, const clua_bytes *shape,
              const clua_bytes *program, void *context);

/// Calls `map` of the program.
int clua_run(clua *state, void *context, const clua_input *input);

/// The result of the last run, in JSON with members sorted by name; valid until the next call.
const uint8_t *clua_output(const clua *state, size_t *count);
/// True if the event of the last run is an object with the members `specversion` and `traceparent`.
bool clua_is_traced(const clua *state);
/// The error of the last call, for people; valid until the next call.
const char *clua_message(const clua *state, size_t *count);

/// The most bytes in use at once since the last run began.
size_t clua_peak(const clua *state);
/// The steps of the last run.
int64_t clua_steps(const clua *state);
/// The version of the library.
const char *clua_version(void);

#endif
