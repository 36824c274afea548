/* The commit that the programs are built from, or "unknown". */
const char *waybill_commit(void);
