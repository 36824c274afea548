#pragma once
#include <stdint.h>

/* The next bind to 127.0.0.1 with port 0 gets this port instead; once. 0 takes the wish back. */
void bindport_next(uint16_t port);

/* 1 if 127.0.0.1:port can be bound now. Ask first: the mock broker aborts the process when it cannot bind. */
int bindport_is_free(uint16_t port);
