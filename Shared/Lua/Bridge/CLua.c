#define _GNU_SOURCE
#include "CLua.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <lua5.4/lualib.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/// The instructions between two looks at the limits.
#define INTERVAL 100
#define PROGRAM "=map.lua"

struct clua {
    lua_State *lua;
    clua_limits limits;
    clua_host host;
    void *context;
    size_t used, peak;
    int64_t steps;
    int64_t deadline;
    int status;
    char *output;
    size_t count, capacity;
    char message[1024];
    size_t message_count;
    /// References to the program, the metatable of its globals.
    int program, globals;
};

const char *clua_version(void) { return &LUA_RELEASE[4]; }

static int64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// MARK: limits

static clua *owner(lua_State *L) { return *(clua **)lua_getextraspace(L); }

static void *allocate(void *data, void *old, size_t old_count, size_t count) {
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

static int limited(lua_State *L, const char *reason) {
    owner(L)->status = clua_limited;
    return luaL_error(L, "%s", reason);
}

static void check(lua_State *L) {
    clua *state = owner(L);
    if (state->steps < 0) limited(L, "too many instructions");
    // The time of the wall costs little; that of the thread is asked for only after it.
    if (now(CLOCK_MONOTONIC) > state->deadline) {
        if (now(CLOCK_THREAD_CPUTIME_ID) > state->limits.nanoseconds) limited(L, "too much processor time");
    }
}

static void charge(lua_State *L, int64_t steps) {
    clua *state = owner(L);
    state->steps -= steps < state->limits.steps ? steps : state->limits.steps + 1;
    check(L);
}

static void hook(lua_State *L, lua_Debug *activation) {
    (void)activation;
    owner(L)->steps -= INTERVAL;
    check(L);
}

static int fail(lua_State *L) { return lua_error(L); }

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

// MARK: values in

typedef struct {
    const uint8_t *bytes, *end;
} reader;

static uint32_t read_count(lua_State *L, reader *input) {
    uint32_t count;
    if (input->end - input->bytes < (ptrdiff_t)sizeof count) luaL_error(L, "the input ends early");
    memcpy(&count, input->bytes, sizeof count);
    input->bytes += sizeof count;
    // Every element has at least one byte.
    if (count > (size_t)(input->end - input->bytes)) luaL_error(L, "the input ends early");
    return count;
}

static void read_text(lua_State *L, reader *input) {
    uint32_t count = read_count(L, input);
    lua_pushlstring(L, (const char *)input->bytes, count);
    input->bytes += count;
}

static void read_value(lua_State *L, reader *input, int depth) {
    if (depth > 64 || input->bytes == input->end) luaL_error(L, "the input is not a value");
    luaL_checkstack(L, 4, "input");
    switch (*input->bytes++) {
    case 'n': lua_pushlightuserdata(L, NULL); return;
    case 't': lua_pushboolean(L, 1); return;
    case 'f': lua_pushboolean(L, 0); return;
    case 'i': {
        int64_t value;
        if (input->end - input->bytes < (ptrdiff_t)sizeof value) luaL_error(L, "the input ends early");
        memcpy(&value, input->bytes, sizeof value);
        input->bytes += sizeof value;
        lua_pushinteger(L, value);
        return;
    }
    case 's': read_text(L, input); return;
    case 'a': {
        uint32_t count = read_count(L, input);
        lua_createtable(L, (int)count, 0);
        for (uint32_t index = 1; index <= count; index++) {
            read_value(L, input, depth + 1);
            lua_rawseti(L, -2, index);
        }
        return;
    }
    case 'o': {
        uint32_t count = read_count(L, input);
        lua_createtable(L, 0, (int)count);
        for (uint32_t index = 0; index < count; index++) {
            read_text(L, input);
            read_value(L, input, depth + 1);
            lua_rawset(L, -3);
        }
        return;
    }
    default: luaL_error(L, "the input is not a value");
    }
}

// MARK: decimals

/// The metatable of decimals: texts of numbers that leave as numbers of JSON.
#define DECIMAL "decimal number"

static void push_decimal(lua_State *L, const char *text, size_t count) {
    memcpy(lua_newuserdatauv(L, count, 0), text, count);
    luaL_setmetatable(L, DECIMAL);
}

/// Pushes the text of a decimal, or of anything else that has one.
static const char *decimal_text(lua_State *L, int index, size_t *count) {
    if (!luaL_testudata(L, index, DECIMAL)) return luaL_tolstring(L, index, count);
    return lua_pushlstring(L, lua_touserdata(L, index), *count = lua_rawlen(L, index));
}

static int decimal_tostring(lua_State *L) {
    size_t count;
    decimal_text(L, 1, &count);
    return 1;
}

static int decimal_concat(lua_State *L) {
    for (int index = 1; index <= 2; index++) {
        size_t count;
        if (!lua_isstring(L, index) && !luaL_testudata(L, index, DECIMAL)) {
            lua_pushfstring(L, "attempt to concatenate a %s value", luaL_typename(L, index));
            return lua_error(L);
        }
        decimal_text(L, index, &count);
    }
    lua_concat(L, 2);
    return 1;
}

/// Leaves the result of the function of the host that is the first upvalue: -1, 0 or 1.
static void compare(lua_State *L) {
    lua_settop(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 2, 1);
}

/// The second upvalue is the least result that is false.
static int decimal_less(lua_State *L) {
    compare(L);
    lua_pushboolean(L, lua_tointeger(L, -1) < lua_tointeger(L, lua_upvalueindex(2)));
    return 1;
}

static int decimal_equal(lua_State *L) {
    compare(L);
    lua_pushboolean(L, lua_tointeger(L, -1) == 0);
    return 1;
}

// MARK: values out

/// The way from the result to a value, on the stack of C.
typedef struct place {
    const struct place *parent;
    const char *name;
    lua_Integer index;
    int depth;
} place;

static int misplaced(lua_State *L, const place *at, const char *problem) {
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    const place *from = at;
    // Written from the outside in; an index has brackets.
    const place *way[64];
    int count = 0;
    for (; from && count < 64; from = from->parent) way[count++] = from;
    luaL_addstring(&text, "result");
    while (count-- > 0) {
        if (way[count]->name) {
            luaL_addchar(&text, '.');
            luaL_addlstring(&text, way[count]->name, strnlen(way[count]->name, 60));
        } else {
            char number[32];
            int length = lua_integer2str(number, sizeof number, (LUAI_UACINT)way[count]->index);
            luaL_addchar(&text, '[');
            luaL_addlstring(&text, number, (size_t)length);
            luaL_addchar(&text, ']');
        }
    }
    luaL_addstring(&text, " ");
    luaL_addstring(&text, problem);
    luaL_pushresult(&text);
    return lua_error(L);
}

static void write_bytes(lua_State *L, const void *bytes, size_t count) {
    clua *state = owner(L);
    if (count > state->limits.output - state->count) limited(L, "the result is too large");
    if (state->count + count > state->capacity) {
        size_t capacity = state->capacity ? state->capacity * 2 : 4096;
        while (capacity < state->count + count) capacity *= 2;
        char *grown = allocate(state, state->output, state->capacity, capacity);
        if (!grown) {
            lua_gc(L, LUA_GCCOLLECT);
            grown = allocate(state, state->output, state->capacity, capacity);
        }
        if (!grown) limited(L, "not enough memory");
        state->output = grown;
        state->capacity = capacity;
    }
    memcpy(state->output + state->count, bytes, count);
    state->count += count;
}

static void write_byte(lua_State *L, char byte) { write_bytes(L, &byte, 1); }

static void write_text(lua_State *L, int index) {
    size_t length;
    const char *text = lua_tolstring(L, index, &length);
    if (length > UINT32_MAX) limited(L, "a text is too long");
    uint32_t count = (uint32_t)length;
    write_bytes(L, &count, sizeof count);
    write_bytes(L, text, count);
}

static void write_value(lua_State *L, const place *at);

/// Writes the table on top of the stack.
static void write_table(lua_State *L, const place *at) {
    if (at && at->depth >= owner(L)->limits.depth) limited(L, "the result is nested too deeply");
    uint32_t count = 0;
    int64_t integers = 0;
    lua_Integer highest = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        count++;
        if (lua_isinteger(L, -2)) {
            lua_Integer key = lua_tointeger(L, -2);
            if (key < 1) misplaced(L, at, "is a table with a key that is neither a text nor a place of a list");
            if (key > highest) highest = key;
            integers++;
        } else if (lua_type(L, -2) != LUA_TSTRING) {
            misplaced(L, at, "is a table with a key that is neither a text nor a place of a list");
        }
    }
    charge(L, count);
    if (count == 0) return write_byte(L, 'e');
    if (integers > 0 && integers < count) misplaced(L, at, "is a table with both names and places of a list");
    if (integers > 0 && highest != count) misplaced(L, at, "is a list with gaps: use null, or leave them out");
    write_byte(L, integers > 0 ? 'a' : 'o');
    write_bytes(L, &count, sizeof count);
    place inside = {at, NULL, 0, at ? at->depth + 1 : 1};
    if (integers > 0) {
        for (lua_Integer index = 1; index <= highest; index++) {
            inside.index = index;
            lua_rawgeti(L, -1, index);
            write_value(L, &inside);
            lua_pop(L, 1);
        }
        return;
    }
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        inside.name = lua_tostring(L, -2);
        write_text(L, -2);
        write_value(L, &inside);
    }
}

/// Writes the value on top of the stack.
static void write_value(lua_State *L, const place *at) {
    luaL_checkstack(L, 6, "result");
    switch (lua_type(L, -1)) {
    case LUA_TBOOLEAN: return write_byte(L, lua_toboolean(L, -1) ? 't' : 'f');
    case LUA_TNUMBER: {
        if (!lua_isinteger(L, -1)) {
            owner(L)->status = clua_inexact;
            misplaced(L, at, "is a number with a fraction: numbers of a result are integers, amounts are texts");
        }
        int64_t value = lua_tointeger(L, -1);
        write_byte(L, 'i');
        return write_bytes(L, &value, sizeof value);
    }
    case LUA_TSTRING: write_byte(L, 's'); return write_text(L, -1);
    case LUA_TTABLE: return write_table(L, at);
    case LUA_TUSERDATA: {
        if (!luaL_testudata(L, -1, DECIMAL)) break;
        uint32_t count = (uint32_t)lua_rawlen(L, -1);
        write_byte(L, 'd');
        write_bytes(L, &count, sizeof count);
        return write_bytes(L, lua_touserdata(L, -1), count);
    }
    case LUA_TLIGHTUSERDATA:
        if (!lua_touserdata(L, -1)) return write_byte(L, 'n');
        break;
    default: break;
    }
    misplaced(L, at, lua_type(L, -1) == LUA_TFUNCTION ? "is a function" : "is not a value of JSON");
}

// MARK: the base

/// `tostring` without addresses, which differ from run to run, and without the digits of a float.
static int base_tostring(lua_State *L) {
    luaL_checkany(L, 1);
    if (lua_type(L, 1) == LUA_TLIGHTUSERDATA) {
        lua_pushliteral(L, "null");
    } else if (lua_type(L, 1) == LUA_TNUMBER && !lua_isinteger(L, 1)) {
        lua_pushliteral(L, "a number with a fraction has no exact text");
        return fail(L);
    } else if (lua_type(L, 1) > LUA_TSTRING && !luaL_testudata(L, 1, DECIMAL)) {
        lua_pushstring(L, luaL_typename(L, 1));
    } else {
        luaL_tolstring(L, 1, NULL);
    }
    return 1;
}

static int base_assert(lua_State *L) {
    luaL_checkany(L, 1);
    if (lua_toboolean(L, 1)) return lua_gettop(L);
    if (lua_type(L, 2) != LUA_TSTRING) lua_pushliteral(L, "assertion failed");
    else lua_settop(L, 2);
    return fail(L);
}

static int base_type(lua_State *L) {
    luaL_checkany(L, 1);
    const char *name = lua_type(L, 1) == LUA_TLIGHTUSERDATA ? "null" : luaL_typename(L, 1);
    lua_pushstring(L, luaL_testudata(L, 1, DECIMAL) ? "number" : name);
    return 1;
}

typedef struct {
    const char *text;
    size_t count;
    lua_Integer integer;
} sort_key;

/// Integers by size, then texts by their bytes.
static int compare_keys(const void *left, const void *right) {
    const sort_key *a = left, *b = right;
    if (!a->text || !b->text) {
        if (!a->text && !b->text) return a->integer < b->integer ? -1 : a->integer > b->integer;
        return a->text ? 1 : -1;
    }
    int order = memcmp(a->text, b->text, a->count < b->count ? a->count : b->count);
    return order ? order : (a->count > b->count) - (a->count < b->count);
}

static int pairs_next(lua_State *L) {
    lua_Integer index = lua_tointeger(L, lua_upvalueindex(3));
    while (lua_rawgeti(L, lua_upvalueindex(2), ++index) != LUA_TNIL) {
        lua_pushvalue(L, -1);
        if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL) {
            lua_pop(L, 2);
            continue;
        }
        lua_pushinteger(L, index);
        lua_replace(L, lua_upvalueindex(3));
        return 2;
    }
    return 1;
}

/// `pairs` in the order of the keys: that of Lua depends on addresses and the time.
static int base_pairs(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    size_t count = 0;
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) count++;
    charge(L, (int64_t)count * 4);
    sort_key *keys = lua_newuserdatauv(L, (count + 1) * sizeof *keys, 0);
    size_t index = 0;
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING) {
            keys[index].text = lua_tolstring(L, -2, &keys[index].count);
        } else if (lua_isinteger(L, -2)) {
            keys[index].text = NULL;
            keys[index].integer = lua_tointeger(L, -2);
        } else {
            lua_pushliteral(L, "pairs: the table has a key that is neither a text nor an integer");
            return fail(L);
        }
        index++;
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    lua_pushvalue(L, 1);
    lua_createtable(L, (int)count, 0);
    for (index = 0; index < count; index++) {
        if (keys[index].text) lua_pushlstring(L, keys[index].text, keys[index].count);
        else lua_pushinteger(L, keys[index].integer);
        lua_rawseti(L, -2, (lua_Integer)index + 1);
    }
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, pairs_next, 3);
    return 1;
}

// MARK: texts

static int string_find(lua_State *L) {
    size_t count, wanted;
    const char *text = luaL_checklstring(L, 1, &count);
    const char *part = luaL_checklstring(L, 2, &wanted);
    lua_Integer from = luaL_optinteger(L, 3, 1);
    if (from < 0) from = (lua_Integer)count + from + 1;
    if (from < 1) from = 1;
    charge(L, (int64_t)(count / 16));
    if (from > (lua_Integer)count + 1) return 0;
    const char *found = memmem(text + from - 1, count - (size_t)from + 1, part, wanted);
    if (!found) return 0;
    lua_pushinteger(L, found - text + 1);
    lua_pushinteger(L, found - text + (lua_Integer)wanted);
    return 2;
}

static int string_replace(lua_State *L) {
    size_t count, wanted, given;
    const char *text = luaL_checklstring(L, 1, &count);
    const char *part = luaL_checklstring(L, 2, &wanted);
    const char *by = luaL_checklstring(L, 3, &given);
    luaL_argcheck(L, wanted > 0, 2, "must not be empty");
    lua_Integer most = luaL_optinteger(L, 4, LUA_MAXINTEGER);
    charge(L, (int64_t)(count / 16));
    luaL_Buffer result;
    luaL_buffinit(L, &result);
    const char *end = text + count;
    while (most-- > 0) {
        const char *found = memmem(text, (size_t)(end - text), part, wanted);
        if (!found) break;
        luaL_addlstring(&result, text, (size_t)(found - text));
        luaL_addlstring(&result, by, given);
        text = found + wanted;
    }
    luaL_addlstring(&result, text, (size_t)(end - text));
    luaL_pushresult(&result);
    return 1;
}

/// Calls the function of Lua that is the first upvalue with all arguments.
static int call_original(lua_State *L) {
    int count = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, count, LUA_MULTRET);
    return lua_gettop(L);
}

/// Counts what may repeat in a pattern, outside of sets.
static int quantifiers(const char *pattern, const char *end) {
    int count = 0;
    for (; pattern < end; pattern++) {
        if (*pattern == '%') {
            if (++pattern < end && *pattern == 'b') count++;
        } else if (*pattern == '[') {
            if (++pattern < end && *pattern == '^') pattern++;
            do {
                if (pattern < end && *pattern == '%') pattern++;
                pattern++;
            } while (pattern < end && *pattern != ']');
        } else if (strchr("*+-?", *pattern)) {
            count++;
        }
    }
    return count;
}

static int string_match(lua_State *L) {
    size_t count, size;
    luaL_checklstring(L, 1, &count);
    const char *pattern = luaL_checklstring(L, 2, &size);
    luaL_argcheck(L, count <= 256, 1, "match takes at most 256 bytes");
    luaL_argcheck(L, size <= 256, 2, "a pattern has at most 256 bytes");
    int repeats = quantifiers(pattern, pattern + size);
    luaL_argcheck(L, repeats <= 2, 2, "a pattern has at most two of * + - ? %b");
    int64_t cost = (int64_t)count + 1;
    for (int64_t each = cost; repeats > 0; repeats--) cost *= each;
    charge(L, cost / 16);
    return call_original(L);
}

static int string_format(lua_State *L) {
    size_t count;
    const char *format = luaL_checklstring(L, 1, &count);
    for (const char *at = format, *end = format + count; at < end; at++) {
        if (*at != '%') continue;
        at++;
        while (at < end && strchr("-+ #0123456789.", *at) && *at) at++;
        luaL_argcheck(L, at < end && *at && strchr("cdisxX%", *at), 1, "takes only %c %d %i %s %x %X");
    }
    return call_original(L);
}

/// A function whose work grows with its first argument, a text.
static int string_charged(lua_State *L) {
    size_t count = 0;
    if (lua_type(L, 1) == LUA_TSTRING) lua_tolstring(L, 1, &count);
    charge(L, (int64_t)count);
    return call_original(L);
}

// MARK: tables

/// A function whose work grows with its first argument, a table; the second upvalue is the work for each element.
static int table_charged(lua_State *L) {
    if (lua_type(L, 1) == LUA_TTABLE) charge(L, (int64_t)lua_rawlen(L, 1) * lua_tointeger(L, lua_upvalueindex(2)));
    return call_original(L);
}

static int table_unpack(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer from = luaL_optinteger(L, 2, 1), to = luaL_optinteger(L, 3, (lua_Integer)lua_rawlen(L, 1));
    luaL_argcheck(L, from >= 1 && from < 1 << 30 && to <= from + 250, 3, "unpack takes at most 250 elements");
    return call_original(L);
}

// MARK: functions of the host

static int call_host(lua_State *L) {
    clua *state = owner(L);
    clua_value arguments[CLUA_ARGUMENTS];
    int count = lua_gettop(L);
    if (count > CLUA_ARGUMENTS) count = CLUA_ARGUMENTS;
    for (int index = 0; index < count; index++) {
        clua_value *value = &arguments[index];
        *value = (clua_value){clua_nil, 0, NULL, 0};
        switch (lua_type(L, index + 1)) {
        case LUA_TNIL: break;
        case LUA_TLIGHTUSERDATA: break;
        case LUA_TUSERDATA:
            value->kind = clua_text;
            value->text = luaL_checkudata(L, index + 1, DECIMAL);
            value->count = lua_rawlen(L, index + 1);
            break;
        case LUA_TSTRING:
            value->kind = clua_text;
            value->text = lua_tolstring(L, index + 1, &value->count);
            if (value->count <= CLUA_TEXT) break;
            lua_pushfstring(L, "argument %d is longer than %d bytes", index + 1, CLUA_TEXT);
            return fail(L);
        case LUA_TNUMBER:
            if (lua_isinteger(L, index + 1)) {
                value->kind = clua_integer;
                value->integer = lua_tointeger(L, index + 1);
                break;
            }
            lua_pushfstring(L, "argument %d is a number with a fraction", index + 1);
            return fail(L);
        default:
            lua_pushfstring(L, "argument %d must be a text or an integer, it is a %s", index + 1,
                            luaL_typename(L, index + 1));
            return fail(L);
        }
    }
    int64_t bytes = 0;
    for (int index = 0; index < count; index++) bytes += (int64_t)arguments[index].count;
    charge(L, 50 + bytes / 16);
    char text[CLUA_TEXT];
    clua_value result = {clua_nil, 0, NULL, 0};
    state->host(state->context, (int)lua_tointeger(L, lua_upvalueindex(1)), arguments, count, &result, text);
    if (result.count > CLUA_TEXT) result.count = CLUA_TEXT;
    switch (result.kind) {
    case clua_integer: lua_pushinteger(L, result.integer); return 1;
    case clua_text: lua_pushlstring(L, text, result.count); return 1;
    case clua_decimal: push_decimal(L, text, result.count); return 1;
    case clua_error: lua_pushlstring(L, text, result.count); return fail(L);
    default: lua_pushnil(L); return 1;
    }
}

// MARK: setting up

/// Moves named functions of the table on top of the stack into the one below it, with other code or none.
static void offer(lua_State *L, const char *const *names) {
    for (; *names; names++) {
        lua_getfield(L, -1, *names);
        lua_setfield(L, -3, *names);
    }
}

/// Replaces a function of the table below the one on top by code that calls it.
static void wrap(lua_State *L, const char *name, lua_CFunction code, int weight) {
    lua_getfield(L, -1, name);
    lua_pushinteger(L, weight);
    lua_pushcclosure(L, code, 2);
    lua_setfield(L, -3, name);
}

static int read_only(lua_State *L) {
    lua_pushliteral(L, "libraries and tables of words cannot be changed");
    return fail(L);
}

/// Replaces the table or function on top of the stack by a table through which it can be read, but not written.
static void protect(lua_State *L) {
    lua_newtable(L);
    lua_createtable(L, 0, 3);
    lua_rotate(L, -3, -1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, read_only);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
}

/// Returns a table that has no members, and calls a function with itself and a key for each that is asked for.
static int table_lookup(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    protect(L);
    return 1;
}

static void open_library(lua_State *L, lua_CFunction open) {
    lua_newtable(L);
    lua_pushcfunction(L, open);
    lua_call(L, 0, 1);
}

/// Makes the metatable of decimals, whose functions compare by one of the host's on top of the stack.
static void set_up_decimals(lua_State *L) {
    static const luaL_Reg functions[] = {{"__tostring", decimal_tostring}, {"__concat", decimal_concat}, {NULL, NULL}};
    luaL_newmetatable(L, DECIMAL);
    luaL_setfuncs(L, functions, 0);
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, decimal_equal, 1);
    lua_setfield(L, -2, "__eq");
    for (int least = 0; least <= 1; least++) {
        lua_pushvalue(L, -2);
        lua_pushinteger(L, least);
        lua_pushcclosure(L, decimal_less, 2);
        lua_setfield(L, -2, least ? "__le" : "__lt");
    }
    lua_pop(L, 1);
}

/// Leaves the base, the table of a program's functions, on the stack.
static void set_up_base(lua_State *L) {
    static const char *const base[] = {"error", "ipairs", "rawequal", "rawlen", "select", "tonumber", NULL};
    static const char *const strings[] = {"char", "len", "rep", "sub", NULL};
    static const char *const numbers[] = {"abs", "ceil", "floor", "fmod", "huge", "max", "maxinteger", "min",
                                          "mininteger", "modf", "tointeger", "type", "ult", NULL};
    open_library(L, luaopen_base);
    offer(L, base);
    lua_pop(L, 1);
    lua_pushcfunction(L, base_tostring);
    lua_setfield(L, -2, "tostring");
    lua_pushcfunction(L, base_assert);
    lua_setfield(L, -2, "assert");
    lua_pushcfunction(L, base_type);
    lua_setfield(L, -2, "type");
    lua_pushcfunction(L, base_pairs);
    lua_setfield(L, -2, "pairs");
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");

    open_library(L, luaopen_string);
    offer(L, strings);
    wrap(L, "byte", string_charged, 1);
    wrap(L, "lower", string_charged, 1);
    wrap(L, "upper", string_charged, 1);
    wrap(L, "reverse", string_charged, 1);
    wrap(L, "match", string_match, 1);
    wrap(L, "format", string_format, 1);
    lua_pop(L, 1);
    lua_pushcfunction(L, string_find);
    lua_setfield(L, -2, "find");
    lua_pushcfunction(L, string_replace);
    lua_setfield(L, -2, "replace");
    protect(L);
    // Without the metamethods of Lua, by which texts take part in arithmetic and become floats.
    lua_pushliteral(L, "");
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
    lua_setfield(L, -2, "string");

    open_library(L, luaopen_table);
    wrap(L, "concat", table_charged, 1);
    wrap(L, "insert", table_charged, 1);
    wrap(L, "remove", table_charged, 1);
    wrap(L, "sort", table_charged, 32);
    wrap(L, "unpack", table_unpack, 1);
    lua_pop(L, 1);
    protect(L);
    lua_setfield(L, -2, "table");

    open_library(L, luaopen_math);
    offer(L, numbers);
    lua_pop(L, 1);
    protect(L);
    lua_setfield(L, -2, "math");

    open_library(L, luaopen_utf8);
    static const char *const characters[] = {"char", NULL};
    offer(L, characters);
    wrap(L, "len", string_charged, 1);
    wrap(L, "offset", string_charged, 1);
    wrap(L, "codepoint", string_charged, 1);
    lua_pop(L, 1);
    protect(L);
    lua_setfield(L, -2, "utf8");
}

typedef struct {
    const char *library, *functions, *program;
    size_t library_count, program_count;
} texts;

/// Calls the program with new globals, so that nothing lasts from one record to the next; leaves the globals.
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
}

static int load(lua_State *L) {
    const texts *given = lua_touserdata(L, 1);
    clua *state = owner(L);
    set_up_base(L);
    if (luaL_loadbufferx(L, given->library, given->library_count, "=waybill", "t")) return lua_error(L);
    lua_newtable(L);
    const char *name = given->functions;
    for (int number = 0; *name; number++) {
        const char *end = strchrnul(name, ' ');
        lua_pushlstring(L, name, (size_t)(end - name));
        lua_pushinteger(L, number);
        lua_pushcclosure(L, call_host, 1);
        lua_rawset(L, -3);
        name = *end ? end + 1 : end;
    }
    lua_pushliteral(L, "compare");
    lua_rawget(L, -2);
    set_up_decimals(L);
    lua_pop(L, 1);
    lua_pushcfunction(L, table_lookup);
    lua_setfield(L, -2, "lookup");
    lua_pushcfunction(L, fail);
    lua_setfield(L, -2, "fail");
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, -4);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setupvalue(L, -2, 1);
    lua_call(L, 0, 1);
    protect(L);
    lua_setfield(L, -2, "waybill");

    lua_createtable(L, 0, 2);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    state->globals = luaL_ref(L, LUA_REGISTRYINDEX);
    if (luaL_loadbufferx(L, given->program, given->program_count, PROGRAM, "t")) return lua_error(L);
    state->program = luaL_ref(L, LUA_REGISTRYINDEX);
    begin(L);
    lua_pushliteral(L, "map");
    if (lua_rawget(L, -2) != LUA_TFUNCTION) {
        return luaL_error(L, "map.lua: there is no function map(event, record)");
    }
    return 0;
}

static int run(lua_State *L) {
    reader *input = lua_touserdata(L, 1);
    begin(L);
    lua_pushliteral(L, "constants");
    read_value(L, input, 0);
    lua_rawset(L, -3);
    lua_pushliteral(L, "map");
    if (lua_rawget(L, -2) != LUA_TFUNCTION) return luaL_error(L, "map.lua: there is no function map(event, record)");
    read_value(L, input, 0);
    read_value(L, input, 0);
    lua_call(L, 2, 1);
    if (lua_isnil(L, -1)) {
        write_byte(L, 'e');
    } else {
        write_value(L, NULL);
    }
    return 0;
}

/// Runs a function below a `lua_pcall`.
static int protected(clua *state, lua_CFunction function, void *argument) {
    lua_State *L = state->lua;
    state->status = clua_done;
    state->steps = state->limits.steps;
    state->peak = state->used;
    state->count = 0;
    state->message_count = 0;
    int64_t cpu = now(CLOCK_THREAD_CPUTIME_ID);
    int64_t allowed = state->limits.nanoseconds;
    state->deadline = now(CLOCK_MONOTONIC) + allowed;
    state->limits.nanoseconds = cpu + allowed;
    lua_sethook(L, hook, LUA_MASKCOUNT, INTERVAL);
    lua_pushcfunction(L, locate);
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, argument);
    int result = lua_pcall(L, 1, 0, 1);
    state->limits.nanoseconds = allowed;
    if (result != LUA_OK) {
        int status = state->status == clua_done ? clua_failed : state->status;
        // No conversion: that could fail for want of memory.
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "error: it is not a text";
        if (result == LUA_ERRMEM) {
            status = clua_limited;
            text = state->steps < 0 ? "too many instructions, or too much was allocated" : "not enough memory";
        }
        state->message_count = strnlen(text, sizeof state->message);
        memcpy(state->message, text, state->message_count);
        state->status = status;
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

int clua_load(clua *state, const char *library, size_t library_count, const char *functions, const char *program,
              size_t program_count, void *context) {
    texts given = {library, functions, program, library_count, program_count};
    state->context = context;
    return protected(state, load, &given);
}

int clua_run(clua *state, void *context, const uint8_t *input, size_t count) {
    reader given = {input, input + count};
    state->context = context;
    // A large result of the run before is not kept.
    if (state->capacity > 65536) {
        allocate(state, state->output, state->capacity, 0);
        state->output = NULL;
        state->capacity = 0;
    }
    return protected(state, run, &given);
}

const uint8_t *clua_output(const clua *state, size_t *count) {
    *count = state->count;
    return (const uint8_t *)state->output;
}

const char *clua_message(const clua *state, size_t *count) {
    *count = state->message_count;
    return state->message;
}

size_t clua_used(const clua *state) { return state->used; }
size_t clua_peak(const clua *state) { return state->peak; }
int64_t clua_steps(const clua *state) { return state->limits.steps - state->steps; }
