#pragma once
#include <stdint.h>

/* The next bind of this thread to 127.0.0.1 with port 0 gets this port instead; once. 0 takes the wish back. */
void bindport_next(uint16_t port);
