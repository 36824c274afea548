#pragma once
#include <stddef.h>

/* A file of the folder as the build read it. The bytes live as long as the program. */
typedef struct {
    const unsigned char *bytes;
    size_t count;
} browser_file;

browser_file browser_module(void);
browser_file browser_stylesheet(void);
browser_file browser_polyfill(void);
