/// What the files of the bridge share.
#ifndef CLUA_STATE_H
#define CLUA_STATE_H

#include "CLua.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>

/// The metatable of decimals: texts of numbers that leave as numbers of JSON.
#define DECIMAL "decimal number"

struct clua {
    lua_State *lua;
    clua_limits limits;
    clua_host host;
    void *context;
    size_t used, peak;
    int64_t steps;
    int status;
    bool is_traced;
    /// The result; before that, a text with escapes that is put together.
    char *output;
    size_t count, capacity;
    char message[1024];
    size_t message_count;
    /// References to the program, the metatable of its globals, the shape of its result.
    int program, globals, shape;
};

static inline clua *owner(lua_State *L) { return *(clua **)lua_getextraspace(L); }

void *allocate(void *state, void *old, size_t old_count, size_t count);
/// Ends the run, since it reached a limit.
int limited(lua_State *L, const char *reason);
/// Pushes the value of a JSON text; returns false, with the stack as it may be, if the text has any fault.
bool read_json(lua_State *L, const clua_bytes *text, int depth, size_t entries);
/// Appends a value to the output as JSON. `shape`: the place of its shape on the stack.
void write_json(lua_State *L, int value, int shape);

#endif
