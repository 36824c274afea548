/// Pictures as shops have them, drawn, and encoded by the libraries' own encoders in many ways.
#ifndef CPICTURESAMPLES_H
#define CPICTURESAMPLES_H

#include <stddef.h>
#include <stdint.h>

/// Draws red, green, blue and alpha: a photograph of a lamp, or with `is_logo` a drawing on nothing.
///
/// The corners are red, green, blue and yellow, row by row, so that a turned picture is noticed.
void picture_samples_draw(uint8_t *pixels, uint32_t width, uint32_t height, int is_logo);

enum picture_samples_png {
    picture_samples_colour,
    picture_samples_colour_alpha,
    picture_samples_grey,
    picture_samples_grey_alpha,
    picture_samples_black_white,
    picture_samples_palette,
    picture_samples_palette_transparent,
    picture_samples_colour_16,
    picture_samples_colour_alpha_16,
};
size_t picture_samples_encode_png(const uint8_t *pixels, uint32_t width, uint32_t height, int kind, int is_interlaced,
                                  uint8_t **output);

enum picture_samples_jpeg {
    picture_samples_ycc,
    picture_samples_luminance,
    /// As Adobe's programs write it: with their marker, and inverted.
    picture_samples_cmyk,
    picture_samples_ycck,
};
size_t picture_samples_encode_jpeg(const uint8_t *pixels, uint32_t width, uint32_t height, int kind, int is_progressive,
                                   uint8_t **output);

size_t picture_samples_encode_webp(const uint8_t *pixels, uint32_t width, uint32_t height, int is_lossless,
                                   uint8_t **output);

/// A grey PNG of `side` pixels a side, by its header, whose pixels have a gigabyte.
size_t picture_samples_inflating(uint32_t side, uint8_t **output);

void picture_samples_free(uint8_t *output);

#endif
