#include "CCommit.h"

/* In C, since Package.swift cannot give Swift code a value. */
const char *waybill_commit(void) { return WAYBILL_COMMIT; }
