#pragma once
#include <stddef.h>

/* A file of the folder as the build read it. The bytes live as long as the program. */
typedef struct {
    const unsigned char *bytes;
    size_t count;
} playground_file;

playground_file playground_html(void);
playground_file playground_stylesheet(void);
playground_file playground_playground(void);
playground_file playground_editor(void);
playground_file playground_examples(void);
playground_file playground_transcript(void);
playground_file playground_device(void);
playground_file playground_source(void);
playground_file playground_panels(void);
playground_file playground_call(void);
playground_file playground_update(void);
playground_file playground_steps(void);
playground_file playground_verifier_html(void);
playground_file playground_verifier(void);
