/* In C, since the Swift compiler takes twelve seconds for an array literal of 70 kB. */
#include "CPlaygroundFiles.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char html[] = {
#embed "playground.html"
};
static const unsigned char stylesheet[] = {
#embed "playground.css"
};
static const unsigned char playground[] = {
#embed "playground.mjs"
};
static const unsigned char editor[] = {
#embed "editor.mjs"
};
static const unsigned char examples[] = {
#embed "examples.mjs"
};
static const unsigned char transcript[] = {
#embed "transcript.mjs"
};
static const unsigned char device[] = {
#embed "device.mjs"
};
static const unsigned char source[] = {
#embed "source.mjs"
};
static const unsigned char panels[] = {
#embed "panels.mjs"
};
static const unsigned char call[] = {
#embed "call.mjs"
};
static const unsigned char update[] = {
#embed "update.mjs"
};
static const unsigned char steps[] = {
#embed "steps.mjs"
};
static const unsigned char verifier_html[] = {
#embed "verifier.html"
};
static const unsigned char verifier[] = {
#embed "verifier.mjs"
};

playground_file playground_html(void) { return (playground_file){html, sizeof html}; }
playground_file playground_stylesheet(void) { return (playground_file){stylesheet, sizeof stylesheet}; }
playground_file playground_playground(void) { return (playground_file){playground, sizeof playground}; }
playground_file playground_editor(void) { return (playground_file){editor, sizeof editor}; }
playground_file playground_examples(void) { return (playground_file){examples, sizeof examples}; }
playground_file playground_transcript(void) { return (playground_file){transcript, sizeof transcript}; }
playground_file playground_device(void) { return (playground_file){device, sizeof device}; }
playground_file playground_source(void) { return (playground_file){source, sizeof source}; }
playground_file playground_panels(void) { return (playground_file){panels, sizeof panels}; }
playground_file playground_call(void) { return (playground_file){call, sizeof call}; }
playground_file playground_update(void) { return (playground_file){update, sizeof update}; }
playground_file playground_steps(void) { return (playground_file){steps, sizeof steps}; }
playground_file playground_verifier_html(void) { return (playground_file){verifier_html, sizeof verifier_html}; }
playground_file playground_verifier(void) { return (playground_file){verifier, sizeof verifier}; }
