/// Lua 5.4 behind calls that never jump over their caller.
///
/// Lua reports errors by `longjmp`, which must not cross frames of Swift. So every call of Lua that can fail is made
/// here, below a `lua_pcall`. Values go in and out as one block of bytes each, and a function of the host returns
/// before an error that it reports is raised.
///
/// A value: `n` null, `t` true, `f` false, `i` and eight bytes, `s` and a text, `d` and the text of a number (out
/// only), `a` a count and that many values, `o` a count and that many texts with a value each, `e` an empty table,
/// which may be either. A text is a count and that many bytes. A count has four bytes; all numbers are little-endian, as
/// the machine is.
#ifndef CLUA_H
#define CLUA_H

#include <stddef.h>
#include <stdint.h>

typedef struct clua clua;

/// The bounds of a program, and of each of its runs.
typedef struct {
    /// Bytes in use, the result included.
    size_t memory;
    /// Instructions of one run; 64 bytes that are allocated count as one, 16 of a large block, and long work of a
    /// library as much as it is.
    int64_t steps;
    /// Processor time of one run for what the steps do not see, such as comparisons of long texts.
    int64_t nanoseconds;
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
};

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

/// Compiles the library `waybill`, a chunk whose globals are the base and the functions of the host by their names, in
/// the order of their numbers and separated by spaces, one of them `compare`, by which decimals are compared; then the
/// program. On failure see `clua_message`.
int clua_load(clua *state, const char *library, size_t library_count, const char *functions, const char *program,
              size_t program_count, void *context);

/// Calls `map` of the program with the values of the input: two arguments, and the global `constants`.
int clua_run(clua *state, void *context, const uint8_t *input, size_t count);

/// The result of the last run; valid until the next call.
const uint8_t *clua_output(const clua *state, size_t *count);
/// The error of the last call, for people; valid until the next call.
const char *clua_message(const clua *state, size_t *count);

/// Bytes in use, and the most of them at once since the last run began.
size_t clua_used(const clua *state);
size_t clua_peak(const clua *state);
/// The steps of the last run.
int64_t clua_steps(const clua *state);
/// The version of the library.
const char *clua_version(void);

#endif
