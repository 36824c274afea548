#define _GNU_SOURCE
#include "state.h"

#include <lua5.4/lualib.h>
#include <stdlib.h>
#include <string.h>

/// The instructions between two looks at the limits.
#define INTERVAL 100
#define PROGRAM "=map.lua"

const char *clua_version(void) { return &LUA_RELEASE[4]; }

// MARK: limits

void *allocate(void *data, void *old, size_t old_count, size_t count) {
    clua *state = data;
    size_t freed = old ? old_count : 0;
    if (count == 0) {
        free(old);
        state->used -= freed;
        return NULL;
    }
    if (count > freed) {
        // Lua collects all garbage and tries again, then it raises an error that nothing in a program can catch.
        // The system gives out a large block page by page.
        size_t wanted = count - freed;
        state->steps -= (int64_t)(wanted / (wanted < 65536 ? 64 : 16));
        if (state->steps < 0 || state->used - freed + count > state->limits.memory) return NULL;
    }
    void *memory = realloc(old, count);
    if (!memory) return count <= freed ? old : NULL;
    state->used = state->used - freed + count;
    if (state->used > state->peak) state->peak = state->used;
    return memory;
}

int limited(lua_State *L, const char *reason) {
    owner(L)->status = clua_limited;
    return luaL_error(L, "%s", reason);
}

static void hook(lua_State *L, lua_Debug *activation) {
    (void)activation;
    owner(L)->steps -= INTERVAL;
    if (owner(L)->steps < 0) limited(L, "too many instructions");
}

/// Adds the line of the program to an error that has none, as those that a function of C raises.
static int locate(lua_State *L) {
    lua_Debug activation;
    if (lua_type(L, 1) != LUA_TSTRING || strncmp(lua_tostring(L, 1), "map.lua:", 8) == 0) return 1;
    for (int level = 0; lua_getstack(L, level, &activation); level++) {
        lua_getinfo(L, "Sl", &activation);
        if (strcmp(activation.source, PROGRAM) != 0) continue;
        lua_pushfstring(L, "map.lua:%d: ", activation.currentline);
        lua_insert(L, 1);
        lua_concat(L, 2);
        break;
    }
    return 1;
}

// MARK: functions of the library

/// The function `text` of the library: that of a decimal.
static int decimal_text(lua_State *L) {
    lua_pushlstring(L, luaL_checkudata(L, 1, DECIMAL), lua_rawlen(L, 1));
    return 1;
}

static void read_argument(lua_State *L, int index, clua_value *value) {
    *value = (clua_value){clua_nil, 0, NULL, 0};
    switch (lua_type(L, index)) {
    case LUA_TNIL:
    case LUA_TLIGHTUSERDATA: return;
    case LUA_TUSERDATA:
        value->text = lua_touserdata(L, index);
        value->count = lua_rawlen(L, index);
        value->kind = clua_text;
        return;
    case LUA_TSTRING:
        value->text = lua_tolstring(L, index, &value->count);
        value->kind = clua_text;
        if (value->count > CLUA_TEXT) luaL_error(L, "argument %d is longer than %d bytes", index, CLUA_TEXT);
        return;
    case LUA_TNUMBER:
        if (!lua_isinteger(L, index)) luaL_error(L, "argument %d is a number with a fraction", index);
        value->kind = clua_integer;
        value->integer = lua_tointeger(L, index);
        return;
    default: luaL_error(L, "argument %d must be a text or an integer, it is a %s", index, luaL_typename(L, index));
    }
}

static int call_host(lua_State *L) {
    clua *state = owner(L);
    clua_value arguments[CLUA_ARGUMENTS], result = {clua_nil, 0, NULL, 0};
    int count = lua_gettop(L) < CLUA_ARGUMENTS ? lua_gettop(L) : CLUA_ARGUMENTS;
    for (int index = 0; index < count; index++) read_argument(L, index + 1, &arguments[index]);
    char text[CLUA_TEXT];
    state->host(state->context, (int)lua_tointeger(L, lua_upvalueindex(1)), arguments, count, &result, text);
    if (result.count > CLUA_TEXT) result.count = CLUA_TEXT;
    switch (result.kind) {
    case clua_integer: lua_pushinteger(L, result.integer); return 1;
    case clua_decimal:
        memcpy(lua_newuserdatauv(L, result.count, 0), text, result.count);
        luaL_setmetatable(L, DECIMAL);
        return 1;
    case clua_text: lua_pushlstring(L, text, result.count); return 1;
    case clua_error: lua_pushlstring(L, text, result.count); return lua_error(L);
    default: lua_pushnil(L); return 1;
    }
}

// MARK: programs

typedef struct {
    const clua_bytes *library, *shape, *program;
    const char *functions;
} texts;

/// Pushes a value that the host wrote.
static void read_own(lua_State *L, const clua_bytes *text) {
    if (!read_json(L, text, 64, SIZE_MAX)) luaL_error(L, "the input is not JSON");
}

static void compile(lua_State *L, const clua_bytes *text, const char *name) {
    if (luaL_loadbufferx(L, text->bytes, text->count, name, "t")) lua_error(L);
}

/// Calls the program with new globals, so that nothing lasts from one record to the next; leaves its function `map`.
static void begin(lua_State *L) {
    clua *state = owner(L);
    lua_createtable(L, 0, 8);
    lua_rawgeti(L, LUA_REGISTRYINDEX, state->globals);
    lua_setmetatable(L, -2);
    lua_rawgeti(L, LUA_REGISTRYINDEX, state->program);
    lua_pushvalue(L, -2);
    // A chunk that uses no global has no such upvalue.
    if (!lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
    lua_call(L, 0, 0);
    lua_pushliteral(L, "map");
    if (lua_rawget(L, -2) != LUA_TFUNCTION) luaL_error(L, "map.lua: there is no function map(event, record)");
}

static int load(lua_State *L) {
    static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},       {LUA_STRLIBNAME, luaopen_string},
                                         {LUA_TABLIBNAME, luaopen_table}, {LUA_MATHLIBNAME, luaopen_math},
                                         {LUA_UTF8LIBNAME, luaopen_utf8}, {NULL, NULL}};
    static const luaL_Reg own[] = {{"text", decimal_text}, {NULL, NULL}};
    const texts *given = lua_touserdata(L, 1);
    clua *state = owner(L);
    for (const luaL_Reg *library = libraries; library->name; library++) {
        luaL_requiref(L, library->name, library->func, 1);
    }
    compile(L, given->library, "=waybill");
    luaL_newlib(L, own);
    const char *name = given->functions;
    for (int number = 0; *name; number++) {
        const char *end = strchrnul(name, ' ');
        lua_pushlstring(L, name, (size_t)(end - name));
        lua_pushinteger(L, number);
        lua_pushcclosure(L, call_host, 1);
        lua_rawset(L, -3);
        name = *end ? end + 1 : end;
    }
    lua_pushlightuserdata(L, NULL);
    luaL_newmetatable(L, DECIMAL);
    lua_call(L, 3, 1);
    state->globals = luaL_ref(L, LUA_REGISTRYINDEX);
    read_own(L, given->shape);
    state->shape = luaL_ref(L, LUA_REGISTRYINDEX);
    compile(L, given->program, PROGRAM);
    state->program = luaL_ref(L, LUA_REGISTRYINDEX);
    begin(L);
    return 0;
}

static bool has_member(lua_State *L, int value, const char *name) {
    if (!lua_istable(L, value)) return false;
    lua_pushstring(L, name);
    bool has = lua_rawget(L, value) != LUA_TNIL;
    lua_pop(L, 1);
    return has;
}

static int run(lua_State *L) {
    const clua_input *input = lua_touserdata(L, 1);
    clua *state = owner(L);
    if (!read_json(L, &input->event, input->depth, input->entries)) {
        state->status = clua_unread;
        return 0;
    }
    int event = lua_gettop(L), map = event + 2;
    state->is_traced = has_member(L, event, "specversion") && has_member(L, event, "traceparent");
    begin(L);
    lua_pushliteral(L, "constants");
    read_own(L, &input->constants);
    lua_rawset(L, event + 1);
    lua_pushvalue(L, event);
    read_own(L, &input->record);
    lua_call(L, 2, 1);
    if (lua_isnil(L, map)) {
        lua_newtable(L);
        lua_replace(L, map);
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, state->shape);
    write_json(L, map, map + 1);
    return 0;
}

/// Runs a function below a `lua_pcall`.
static int protected(clua *state, lua_CFunction function, const void *argument, void *context) {
    lua_State *L = state->lua;
    state->context = context;
    state->status = clua_done;
    state->steps = state->limits.steps;
    state->peak = state->used;
    state->count = state->message_count = 0;
    lua_sethook(L, hook, LUA_MASKCOUNT, INTERVAL);
    lua_pushcfunction(L, locate);
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, (void *)argument);
    int result = lua_pcall(L, 1, 0, 1);
    if (result != LUA_OK) {
        if (state->status == clua_done) state->status = clua_failed;
        // No conversion: that could fail for want of memory.
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "error: it is not a text";
        if (result == LUA_ERRMEM) {
            state->status = clua_limited;
            text = state->steps < 0 ? "too many instructions, or too much was allocated" : "not enough memory";
        }
        state->message_count = strnlen(text, sizeof state->message);
        memcpy(state->message, text, state->message_count);
    }
    lua_settop(L, 0);
    return state->status;
}

// MARK: the interface

clua *clua_new(const clua_limits *limits, clua_host host) {
    clua *state = calloc(1, sizeof *state);
    if (!state) return NULL;
    state->limits = *limits;
    state->host = host;
    state->steps = limits->steps;
    state->lua = lua_newstate(allocate, state);
    if (!state->lua) {
        free(state);
        return NULL;
    }
    *(clua **)lua_getextraspace(state->lua) = state;
    return state;
}

void clua_free(clua *state) {
    lua_close(state->lua);
    free(state->output);
    free(state);
}

int clua_load(clua *state, const clua_bytes *library, const char *functions, const clua_bytes *shape,
              const clua_bytes *program, void *context) {
    texts given = {library, shape, program, functions};
    return protected(state, load, &given, context);
}

int clua_run(clua *state, void *context, const clua_input *input) {
    // A large result of the run before is not kept.
    if (state->capacity > 65536) {
        allocate(state, state->output, state->capacity, 0);
        state->output = NULL;
        state->capacity = 0;
    }
    return protected(state, run, input, context);
}

const uint8_t *clua_output(const clua *state, size_t *count) {
    *count = state->count;
    return (const uint8_t *)state->output;
}

const char *clua_message(const clua *state, size_t *count) {
    *count = state->message_count;
    return state->message;
}

bool clua_is_traced(const clua *state) { return state->is_traced; }
size_t clua_peak(const clua *state) { return state->peak; }
int64_t clua_steps(const clua *state) { return state->limits.steps - state->steps; }
