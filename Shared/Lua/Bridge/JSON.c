#include "state.h"

#include <stdlib.h>
#include <string.h>

// MARK: bytes

/// Returns the end of the bytes that are neither quotation marks, reverse solidi nor control characters, nor part of a
/// character above U+007F. Eight at a time: the lowest bit that is set is right in any case.
static const uint8_t *after_plain(const uint8_t *at, const uint8_t *end) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        uint64_t quotes = word ^ ones * '"', solidi = word ^ ones * '\\';
        uint64_t found = ((word - ones * 0x20) & ~word) | ((quotes - ones) & ~quotes) | ((solidi - ones) & ~solidi);
        found = (found | word) & ones << 7;
        if (found) return at + __builtin_ctzll(found) / 8;
    }
    while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') at++;
    return at;
}

/// Returns the bytes of the character above U+007F that begins here; 0 if it is not UTF-8. Source: Unicode, table 3-7
static int character_count(const uint8_t *at, const uint8_t *end) {
    uint8_t lead = *at, low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    int count = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead < 0xC2 || lead > 0xF4 || end - at < count || at[1] < low || at[1] > high) return 0;
    for (int index = 2; index < count; index++) {
        if ((at[index] & 0xC0) != 0x80) return 0;
    }
    return count;
}

/// Moves to the end of digits; returns false if there are none.
static bool skip_digits(const uint8_t **at, const uint8_t *end) {
    const uint8_t *start = *at;
    while (*at < end && **at >= '0' && **at <= '9') ++*at;
    return *at > start;
}

/// Returns the end of the number that begins here; NULL if there is none. Source: RFC 8259 §6
static const uint8_t *after_number(const uint8_t *at, const uint8_t *end, bool *is_integer) {
    if (at < end && *at == '-') at++;
    const uint8_t *digits = at;
    if (!skip_digits(&at, end) || (*digits == '0' && at - digits > 1)) return NULL;
    const uint8_t *whole = at;
    if (at < end && *at == '.' && (at++, !skip_digits(&at, end))) return NULL;
    if (at < end && (*at | 0x20) == 'e') {
        if (++at < end && (*at == '+' || *at == '-')) at++;
        if (!skip_digits(&at, end)) return NULL;
    }
    *is_integer = at == whole;
    return at;
}

/// Makes room for bytes behind the output, and returns their place.
static char *reserve(lua_State *L, size_t count) {
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
    return state->output + state->count;
}

static void append(lua_State *L, const void *bytes, size_t count) {
    if (count > 0) memcpy(reserve(L, count), bytes, count);
    owner(L)->count += count;
}

static void append_byte(lua_State *L, char byte) {
    *reserve(L, 1) = byte;
    owner(L)->count++;
}

// MARK: reading

/// The members or elements of one container that wait on the stack until their number is known: growing a table takes
/// longer than filling it.
#define BATCH 64

typedef struct {
    lua_State *L;
    const uint8_t *at, *end;
    int depth;
    size_t entries;
} reader;

/// Takes a byte of punctuation, with the space before it; 0 takes the space alone.
static bool take(reader *input, uint8_t byte) {
    while (input->at < input->end && *input->at <= ' ' && memchr(" \n\r\t", *input->at, 4)) input->at++;
    if (input->at == input->end || byte == 0 || *input->at != byte) return false;
    input->at++;
    return true;
}

static bool take_word(reader *input, const char *word) {
    size_t count = strlen(word);
    if ((size_t)(input->end - input->at) < count || memcmp(input->at, word, count) != 0) return false;
    input->at += count;
    return true;
}

/// Takes `u` and four hexadecimal digits; returns -1 if they are not there.
static int32_t take_code(reader *input) {
    int32_t code = 0;
    if (input->end - input->at < 5 || *input->at++ != 'u') return -1;
    for (int count = 0; count < 4; count++) {
        uint8_t digit = *input->at++, letter = (uint8_t)((digit | 0x20) - 'a');
        if (letter >= 6 && (uint8_t)(digit - '0') >= 10) return -1;
        code = code << 4 | (letter < 6 ? letter + 10 : digit - '0');
    }
    return code;
}

/// Appends the character of an escape, whose solidus was taken, to the output.
static bool read_escape(reader *input) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *name = input->at < input->end ? memchr(names, *input->at, 8) : NULL;
    if (name) {
        input->at++;
        append(input->L, &values[name - names], 1);
        return true;
    }
    int32_t code = take_code(input);
    if (code < 0 || (code >= 0xDC00 && code < 0xE000)) return false;
    if (code >= 0xD800 && code < 0xDC00) {
        int32_t second = take_word(input, "\\") ? take_code(input) : -1;
        if (second < 0xDC00 || second >= 0xE000) return false;
        code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
    }
    char bytes[4] = {(char)code};
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    if (more > 0) bytes[0] = (char)((0xF80 >> more & 0xFF) | code >> 6 * more);
    for (int index = 1; index <= more; index++) bytes[index] = (char)(0x80 | (code >> 6 * (more - index) & 0x3F));
    append(input->L, bytes, (size_t)more + 1);
    return true;
}

/// Pushes the text whose quotation mark was taken; NULL if it is not right.
static const char *read_text(reader *input, size_t *count) {
    const uint8_t *start = input->at;
    clua *state = owner(input->L);
    bool is_copied = false;
    for (state->count = 0;;) {
        input->at = after_plain(input->at, input->end);
        if (input->at == input->end || *input->at < 0x20) return NULL;
        if (*input->at >= 0x80) {
            int bytes = character_count(input->at, input->end);
            if (bytes == 0) return NULL;
            input->at += bytes;
            continue;
        }
        bool is_end = *input->at == '"';
        if (is_copied || !is_end) append(input->L, start, (size_t)(input->at - start));
        *count = is_copied ? state->count : (size_t)(input->at - start);
        input->at++;
        if (is_end) return lua_pushlstring(input->L, is_copied ? state->output : (const char *)start, *count);
        if (!read_escape(input)) return NULL;
        is_copied = true;
        start = input->at;
    }
}

static bool read_number(reader *input) {
    bool is_integer = false, is_negative = *input->at == '-';
    const uint8_t *start = input->at, *end = after_number(start, input->end, &is_integer);
    if (!end) return false;
    uint64_t value = 0, most = (uint64_t)INT64_MAX + is_negative;
    for (const uint8_t *digit = start + is_negative; is_integer && digit < end; digit++) {
        is_integer = value <= (most - (uint64_t)(*digit - '0')) / 10;
        value = value * 10 + (uint64_t)(*digit - '0');
    }
    if (is_integer) lua_pushinteger(input->L, (lua_Integer)(is_negative ? 0 - value : value));
    else lua_pushlstring(input->L, (const char *)start, (size_t)(end - start));
    input->at = end;
    return true;
}

/// A list or an object that is being read.
typedef struct {
    int count;
    bool is_list, may_repeat;
    /// A bit for each name by its address, since Lua keeps equal short texts once: two of one bit may be equal.
    uint64_t names[16];
} container;

static bool read_name(reader *input, container *into) {
    size_t count;
    const char *name = take(input, '"') ? read_text(input, &count) : NULL;
    if (!name) return false;
    uint64_t bit = (uint64_t)(uintptr_t)name * UINT64_C(0x9E3779B97F4A7C15) >> 54, *word = &into->names[bit / 64];
    into->may_repeat |= count > 40 || into->count >= BATCH || (*word >> bit % 64 & 1);
    *word |= UINT64_C(1) << bit % 64;
    return take(input, ':');
}

/// Moves what is on top of the stack into the table below all that waits. `place`: that of an element.
static bool store(lua_State *L, const container *from, int table, int place) {
    if (from->is_list) {
        lua_rawseti(L, table, place);
        return true;
    }
    if (from->may_repeat) {
        lua_pushvalue(L, -2);
        if (lua_rawget(L, table - 1) != LUA_TNIL) return false;
        lua_pop(L, 1);
    }
    lua_rawset(L, table);
    return true;
}

/// Makes the table of what waits, where there was nil.
static bool store_all(lua_State *L, const container *from) {
    int width = from->is_list ? 1 : 2;
    lua_createtable(L, from->is_list ? from->count : 0, from->is_list ? 0 : from->count);
    lua_replace(L, -width * from->count - 2);
    for (int count = from->count; count > 0; count--) {
        if (!store(L, from, -width * count - 1, count)) return false;
    }
    return true;
}

static bool read_value(reader *input, int depth);

static bool read_container(reader *input, int depth, bool is_list) {
    container made = {0, is_list, false, {0}};
    luaL_checkstack(input->L, 2 * BATCH + 8, "an event");
    lua_pushnil(input->L);
    bool is_empty = take(input, is_list ? ']' : '}');
    if (!is_empty) {
        do {
            if (!(is_list || read_name(input, &made)) || !read_value(input, depth + 1)) return false;
            if (++made.count < BATCH) continue;
            if (!(made.count == BATCH ? store_all(input->L, &made)
                                      : store(input->L, &made, is_list ? -2 : -3, made.count))) return false;
        } while (take(input, ','));
    }
    if (made.count < BATCH && !store_all(input->L, &made)) return false;
    return is_empty || take(input, is_list ? ']' : '}');
}

static bool read_value(reader *input, int depth) {
    lua_State *L = input->L;
    if (depth > input->depth || input->entries-- == 0) return false;
    take(input, 0);
    if (input->at == input->end) return false;
    size_t count;
    switch (*input->at) {
    case '"': input->at++; return read_text(input, &count) != NULL;
    case '{': input->at++; return read_container(input, depth, false);
    case '[': input->at++; return read_container(input, depth, true);
    case 't': lua_pushboolean(L, 1); return take_word(input, "true");
    case 'f': lua_pushboolean(L, 0); return take_word(input, "false");
    case 'n': lua_pushlightuserdata(L, NULL); return take_word(input, "null");
    default: return read_number(input);
    }
}

bool read_json(lua_State *L, const clua_bytes *text, int depth, size_t entries) {
    reader input = {L, text->bytes, (const uint8_t *)text->bytes + text->count, depth, entries};
    if (!read_value(&input, 0)) return false;
    take(&input, 0);
    owner(L)->count = 0;
    return input.at == input.end;
}

// MARK: writing

/// The way from the result to a value, on the stack of C.
typedef struct place {
    const struct place *parent;
    const char *name;
    lua_Integer index;
    int depth;
} place;

/// Pushes `result[1].data.status`.
static void push_way(lua_State *L, const place *to) {
    luaL_checkstack(L, 4, "result");
    if (!to) {
        lua_pushliteral(L, "result");
        return;
    }
    push_way(L, to->parent);
    if (to->name) {
        lua_pushliteral(L, ".");
        lua_pushlstring(L, to->name, strnlen(to->name, 60));
        lua_concat(L, 3);
    } else {
        lua_pushfstring(L, "[%I]", (LUAI_UACINT)to->index);
        lua_concat(L, 2);
    }
}

static void misplaced(lua_State *L, const place *at, const char *problem) {
    push_way(L, at);
    lua_pushfstring(L, "%s %s", lua_tostring(L, -1), problem);
    lua_error(L);
}

static void append_text(lua_State *L, const char *text) { append(L, text, strlen(text)); }

/// Source: RFC 8259 §7
static void write_text(lua_State *L, const char *text, size_t count, const place *at) {
    const uint8_t *from = (const uint8_t *)text, *end = from + count;
    append_byte(L, '"');
    for (;;) {
        const uint8_t *next = after_plain(from, end);
        int bytes = 0;
        while (next < end && *next >= 0x80 && (bytes = character_count(next, end)) > 0) {
            next = after_plain(next + bytes, end);
        }
        append(L, from, (size_t)(next - from));
        if (next == end) break;
        if (*next >= 0x80) {
            while (at && !at->name) at = at->parent;
            lua_pushfstring(L, "%s of the result is not UTF-8", at ? at->name : "result");
            lua_error(L);
        }
        static const char digits[] = "0123456789abcdef", known[] = "\"\"\\\\\nn\rr\tt";
        char escape[6] = {'\\', 'u', '0', '0', digits[*next >> 4], digits[*next & 15]};
        const char *name = memchr(known, *next, 10);
        if (name) escape[1] = name[1];
        append(L, escape, name ? 2 : 6);
        from = next + 1;
    }
    append_byte(L, '"');
}

typedef struct {
    const char *text;
    size_t count;
    /// The place of the name on the stack; its value is the next one.
    int place;
} member;

static int compare(const void *left, const void *right) {
    const member *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->count < b->count ? a->count : b->count);
    return order ? order : (a->count > b->count) - (a->count < b->count);
}

static void sort(member *members, size_t count) {
    if (count > 32) return qsort(members, count, sizeof *members, compare);
    for (size_t index = 1, to; index < count; index++) {
        member moved = members[index];
        for (to = index; to > 0 && compare(&moved, &members[to - 1]) < 0; to--) members[to] = members[to - 1];
        members[to] = moved;
    }
}

static void write_value(lua_State *L, int value, const place *at, int shape);

/// Replaces the key on top of the stack by the shape of what it names; returns its place, 0 if there is none.
static int find_shape(lua_State *L, int shape) {
    bool is_found = shape && lua_istable(L, shape) && lua_rawget(L, shape) != LUA_TNIL;
    return is_found ? lua_gettop(L) : 0;
}

/// Writes the members that are on the stack from `first` on, each a name and a value.
static void write_members(lua_State *L, int first, size_t count, place *inside, int shape) {
    member some[32], *members = some;
    if (count > sizeof some / sizeof *some) members = lua_newuserdatauv(L, count * sizeof *members, 0);
    for (size_t index = 0; index < count; index++) {
        members[index].place = first + 2 * (int)index;
        members[index].text = lua_tolstring(L, members[index].place, &members[index].count);
    }
    sort(members, count);
    int top = lua_gettop(L);
    for (size_t index = 0; index < count; index++) {
        append_byte(L, index ? ',' : '{');
        write_text(L, members[index].text, members[index].count, inside->parent);
        append_byte(L, ':');
        inside->name = members[index].text;
        lua_pushvalue(L, members[index].place);
        write_value(L, members[index].place + 1, inside, find_shape(L, shape));
        lua_settop(L, top);
    }
    append_byte(L, '}');
}

static void write_elements(lua_State *L, int table, lua_Integer count, place *inside, int shape) {
    lua_pushinteger(L, 1);
    int element = find_shape(L, shape);
    for (inside->index = 1; inside->index <= count; inside->index++) {
        append_byte(L, inside->index > 1 ? ',' : '[');
        lua_rawgeti(L, table, inside->index);
        write_value(L, lua_gettop(L), inside, element);
        lua_pop(L, 1);
    }
    append_byte(L, ']');
}

/// An empty table is a list where its shape is one, else an object.
static void write_table(lua_State *L, int table, const place *at, int shape) {
    if (at && at->depth >= owner(L)->limits.depth) limited(L, "the result is nested too deeply");
    int top = lua_gettop(L);
    size_t names = 0, places = 0;
    lua_Integer highest = 0;
    luaL_checkstack(L, 10, "result");
    for (lua_pushnil(L); lua_next(L, table);) {
        lua_Integer key = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
        if (lua_type(L, -2) == LUA_TSTRING) {
            // Name and value stay for `write_members`.
            if (++names > 1 << 17) limited(L, "the result is too large");
            luaL_checkstack(L, 10, "result");
            lua_pushvalue(L, -2);
        } else {
            if (key < 1) misplaced(L, at, "is a table with a key that is neither a text nor a place of a list");
            if (key > highest) highest = key;
            places++;
            lua_pop(L, 1);
        }
    }
    if (places > 0 && names > 0) misplaced(L, at, "is a table with both names and places of a list");
    if ((size_t)highest != places) misplaced(L, at, "is a list with gaps: use null, or leave them out");
    place inside = {at, NULL, 0, at ? at->depth + 1 : 1};
    if (names > 0) {
        write_members(L, top + 1, names, &inside, shape);
    } else if (places > 0) {
        write_elements(L, table, highest, &inside, shape);
    } else {
        lua_pushinteger(L, 1);
        append_text(L, find_shape(L, shape) ? "[]" : "{}");
    }
    lua_settop(L, top);
}

static void write_value(lua_State *L, int value, const place *at, int shape) {
    size_t count;
    const char *text;
    bool is_integer;
    switch (lua_type(L, value)) {
    case LUA_TBOOLEAN: return append_text(L, lua_toboolean(L, value) ? "true" : "false");
    case LUA_TNUMBER: {
        if (!lua_isinteger(L, value)) {
            owner(L)->status = clua_inexact;
            misplaced(L, at, "is a number with a fraction: numbers of a result are integers, amounts are texts");
        }
        char number[32];
        return append(L, number, (size_t)lua_integer2str(number, sizeof number, (LUAI_UACINT)lua_tointeger(L, value)));
    }
    case LUA_TSTRING: {
        text = lua_tolstring(L, value, &count);
        const uint8_t *start = (const uint8_t *)text, *end = start + count;
        bool is_number = shape && lua_isinteger(L, shape) && after_number(start, end, &is_integer) == end;
        return is_number ? append(L, text, count) : write_text(L, text, count, at);
    }
    case LUA_TTABLE: return write_table(L, value, at, shape);
    case LUA_TUSERDATA: return append(L, lua_touserdata(L, value), lua_rawlen(L, value));
    case LUA_TLIGHTUSERDATA: return append_text(L, "null");
    default: misplaced(L, at, lua_type(L, value) == LUA_TFUNCTION ? "is a function" : "is not a value of JSON");
    }
}

void write_json(lua_State *L, int value, int shape) { write_value(L, value, NULL, shape); }
