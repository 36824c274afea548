/* In C, since the Swift compiler takes twelve seconds for an array literal of 70 kB. */
#include "CBrowserFiles.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char module[] = {
#embed "waybill.mjs"
};
static const unsigned char stylesheet[] = {
#embed "waybill.css"
};
static const unsigned char polyfill[] = {
#embed "polyfill.js"
};

browser_file browser_module(void) { return (browser_file){module, sizeof module}; }
browser_file browser_stylesheet(void) { return (browser_file){stylesheet, sizeof stylesheet}; }
browser_file browser_polyfill(void) { return (browser_file){polyfill, sizeof polyfill}; }
