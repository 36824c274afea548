/// libjpeg-turbo, libpng and libwebp behind calls that never jump over their caller.
///
/// The first two report errors by `longjmp`, which must not cross frames of Swift. So each call of theirs that can fail
/// is made here, below a `setjmp`. Pixels are streamed: a decoder keeps no more of a picture than its format forces it
/// to.
#ifndef CPICTURES_H
#define CPICTURES_H

#include <stddef.h>
#include <stdint.h>

enum cpictures_format { cpictures_jpeg, cpictures_png, cpictures_webp };

enum cpictures_status {
    cpictures_done,
    /// The file is not as its format says.
    cpictures_damaged,
    /// Its sides are longer than its format's decoder knows, or its file is longer than it may be.
    cpictures_too_large,
    /// It needs more memory than there is.
    cpictures_no_memory,
};

/// The bytes of a message, with the zero at its end.
#define CPICTURES_MESSAGE 200

typedef struct {
    /// In pixels, as stored: an orientation is not applied.
    uint32_t width, height;
} cpictures_header;

/// Reads the header of the picture: of the first frame if there are several.
int cpictures_read_header(int format, const uint8_t *bytes, size_t count, cpictures_header *header, char *message);

/// Decodes and averages each part of the picture that one pixel stands for.
///
/// `width` and `height` are at least 1 and at most those of the header. `pixels` has room for `width * height * 4`
/// bytes: red, green and blue, multiplied by alpha, and alpha.
int cpictures_decode(int format, const uint8_t *bytes, size_t count, uint32_t width, uint32_t height, uint8_t *pixels,
                     char *message);

/// Encodes opaque pixels of three bytes. `*output` is freed by `cpictures_free`.
int cpictures_encode_jpeg(const uint8_t *pixels, uint32_t width, uint32_t height, int quality, uint8_t **output,
                          size_t *count, char *message);

/// Encodes pixels of three bytes or, with alpha, which the others are not multiplied by, of four. A file of more than
/// `limit` bytes is too large; encoding ends there.
int cpictures_encode_png(const uint8_t *pixels, uint32_t width, uint32_t height, int has_alpha, size_t limit,
                         uint8_t **output, size_t *count, char *message);

void cpictures_free(uint8_t *output);

#endif
