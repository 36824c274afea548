#include "CPictureSamples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <png.h>
#include <webp/encode.h>
#include <zlib.h>

static void set(uint8_t *pixel, int red, int green, int blue, int alpha) {
    int parts[3] = {red, green, blue};
    for (int index = 0; index < 3; index++)
        pixel[index] = (uint8_t)(parts[index] < 0 ? 0 : parts[index] > 255 ? 255 : parts[index]);
    pixel[3] = (uint8_t)alpha;
}

/// Places are in thousandths of the sides, since most of this is compiled without optimization.
static void draw(uint8_t *pixel, int u, int v, int noise, int is_logo, int width) {
    static const uint8_t corners[4][3] = {{230, 30, 30}, {30, 170, 60}, {40, 70, 220}, {240, 210, 30}};
    int aside = u < 500 ? 500 - u : u - 500, above = 420 - v;
    if (aside > 380 && (v < 120 || v > 880)) {
        const uint8_t *corner = corners[(v > 500) * 2 + (u > 500)];
        set(pixel, corner[0], corner[1], corner[2], 255);
    } else if (v > 200 && v < 550 && aside < 100 + (v - 200) / 2) {
        int light = is_logo ? 0 : (500 - u) * 70 / 1000 - (v - 400) * 120 / 1000;
        set(pixel, 235 + light + noise, 150 + light + noise, 40 + light + noise, 255);
    } else if (v >= 550 && v < 850 && aside < 20) {
        set(pixel, 70 + noise, 60 + noise, 60 + noise, 255);
    } else if (v >= 820 && v < 880 && aside < 160) {
        set(pixel, 40 + noise, 40 + noise, 45 + noise, 255);
    } else if (!is_logo) {
        int glow = 60000 / (1000 + (aside * aside + above * above) / 20), weave = (u / 12 + v / 12) % 2 * 6;
        set(pixel, 175 + glow + weave + noise - v / 25, 180 + glow + weave + noise - v / 20, 190 + noise - v / 22, 255);
    } else if ((u - 250) * (u - 250) + (v - 700) * (v - 700) < 2500) {
        set(pixel, 0, 0, 0, 0);
    } else {
        // A disc with a soft edge.
        double edge = (0.44 - sqrt(aside * aside + (v - 500) * (v - 500)) / 1000) * width;
        set(pixel, 20, 110, 120, edge <= 0 ? 0 : edge >= 1 ? 255 : (int)(edge * 255));
    }
}

void picture_samples_draw(uint8_t *pixels, uint32_t width, uint32_t height, int is_logo) {
    uint32_t random = 12345;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            random = random * 1664525u + 1013904223u;
            int noise = is_logo ? 0 : (int)(random >> 28) - 7;
            draw(pixels, (int)(x * 1000 / width), (int)(y * 1000 / height), noise, is_logo, (int)width);
            pixels += 4;
        }
    }
}

void picture_samples_free(uint8_t *output) { free(output); }

// MARK: PNG

typedef struct {
    uint8_t *bytes;
    size_t count, capacity;
} target;

static void append(target *file, const void *bytes, size_t count) {
    if (file->capacity - file->count < count) {
        file->capacity = (file->count + count) * 2;
        file->bytes = realloc(file->bytes, file->capacity);
        if (!file->bytes) abort();
    }
    memcpy(file->bytes + file->count, bytes, count);
    file->count += count;
}

static void png_put(png_structp png, png_bytep bytes, size_t count) { append(png_get_io_ptr(png), bytes, count); }
static void png_nothing(png_structp png) { (void)png; }

static uint8_t grey(const uint8_t *pixel) { return (uint8_t)((pixel[0] * 3 + pixel[1] * 6 + pixel[2]) / 10); }

size_t picture_samples_encode_png(const uint8_t *pixels, uint32_t width, uint32_t height, int kind, int is_interlaced,
                                  uint8_t **output) {
    static const int colours[] = {
        [picture_samples_colour] = PNG_COLOR_TYPE_RGB,
        [picture_samples_colour_alpha] = PNG_COLOR_TYPE_RGB_ALPHA,
        [picture_samples_grey] = PNG_COLOR_TYPE_GRAY,
        [picture_samples_grey_alpha] = PNG_COLOR_TYPE_GRAY_ALPHA,
        [picture_samples_black_white] = PNG_COLOR_TYPE_GRAY,
        [picture_samples_palette] = PNG_COLOR_TYPE_PALETTE,
        [picture_samples_palette_transparent] = PNG_COLOR_TYPE_PALETTE,
        [picture_samples_colour_16] = PNG_COLOR_TYPE_RGB,
        [picture_samples_colour_alpha_16] = PNG_COLOR_TYPE_RGB_ALPHA,
    };
    int is_deep = kind >= picture_samples_colour_16;
    int depth = kind == picture_samples_black_white ? 1 : is_deep ? 16 : 8;
    target file = {NULL, 0, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &file, png_put, png_nothing);
    png_set_compression_level(png, 1);
    png_set_IHDR(png, info, width, height, depth, colours[kind],
                 is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (colours[kind] == PNG_COLOR_TYPE_PALETTE) {
        // Six levels of each colour; the last one is transparent.
        png_color palette[217];
        png_byte alpha[217];
        for (int index = 0; index < 217; index++) {
            palette[index].red = (png_byte)(index / 36 * 51);
            palette[index].green = (png_byte)(index / 6 % 6 * 51);
            palette[index].blue = (png_byte)(index % 6 * 51);
            alpha[index] = index == 216 ? 0 : 255;
        }
        png_set_PLTE(png, info, palette, 217);
        if (kind == picture_samples_palette_transparent) png_set_tRNS(png, info, alpha, 217, NULL);
    }
    png_text text = {.compression = PNG_TEXT_COMPRESSION_zTXt, .key = "Comment", .text = "a note"};
    png_set_text(png, info, &text, 1);
    png_write_info(png, info);
    size_t row_bytes = png_get_rowbytes(png, info);
    uint8_t *rows = calloc(height, row_bytes);
    uint8_t **lines = calloc(height, sizeof *lines);
    if (!rows || !lines) abort();
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = lines[y] = rows + y * row_bytes;
        for (uint32_t x = 0; x < width; x++) {
            const uint8_t *pixel = pixels + ((size_t)y * width + x) * 4;
            switch (kind) {
            case picture_samples_colour: memcpy(row + x * 3, pixel, 3); break;
            case picture_samples_colour_alpha: memcpy(row + x * 4, pixel, 4); break;
            case picture_samples_grey: row[x] = grey(pixel); break;
            case picture_samples_grey_alpha:
                row[x * 2] = grey(pixel);
                row[x * 2 + 1] = pixel[3];
                break;
            case picture_samples_black_white:
                if (grey(pixel) > 127) row[x / 8] |= (uint8_t)(0x80 >> x % 8);
                break;
            case picture_samples_palette:
            case picture_samples_palette_transparent:
                row[x] = pixel[3] < 128 ? 216
                                        : (uint8_t)((pixel[0] + 25) / 51 * 36 + (pixel[1] + 25) / 51 * 6
                                                    + (pixel[2] + 25) / 51);
                break;
            default: {
                int count = kind == picture_samples_colour_16 ? 3 : 4;
                for (int index = 0; index < count; index++)
                    row[(x * count + index) * 2] = row[(x * count + index) * 2 + 1] = pixel[index];
            }
            }
        }
    }
    png_write_image(png, lines);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(lines);
    free(rows);
    *output = file.bytes;
    return file.count;
}

static void number(target *file, uint32_t value) {
    uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    append(file, bytes, 4);
}

static void chunk(target *file, const char *type, const uint8_t *bytes, size_t count) {
    number(file, (uint32_t)count);
    append(file, type, 4);
    append(file, bytes, count);
    number(file, (uint32_t)crc32(crc32(0, (const uint8_t *)type, 4), bytes, (uInt)count));
}

size_t picture_samples_inflating(uint32_t side, uint8_t **output) {
    // A part that stands for itself, many times.
    enum { part = 10000000, parts = 100 };
    uint8_t *zeros = calloc(1, part), *packed = malloc(part);
    z_stream stream;
    memset(&stream, 0, sizeof stream);
    if (!zeros || !packed || deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    stream.next_in = zeros;
    stream.avail_in = part;
    stream.next_out = packed;
    stream.avail_out = part;
    deflate(&stream, Z_FULL_FLUSH);
    size_t count = part - stream.avail_out;
    deflateEnd(&stream);
    target file = {NULL, 0, 0}, data = {NULL, 0, 0}, header = {NULL, 0, 0};
    append(&data, "\x78\x01", 2);
    for (int index = 0; index < parts; index++) append(&data, packed, count);
    // The end of the stream, and its checksum, for zeros: how many there are, in the upper half.
    append(&data, "\x03\0", 2);
    number(&data, (uint32_t)((uint64_t)part * parts % 65521) << 16 | 1);
    number(&header, side);
    number(&header, side);
    append(&header, "\x08\0\0\0\0", 5);
    append(&file, "\x89PNG\r\n\x1A\n", 8);
    chunk(&file, "IHDR", header.bytes, header.count);
    chunk(&file, "IDAT", data.bytes, data.count);
    chunk(&file, "IEND", (const uint8_t *)"", 0);
    free(zeros);
    free(packed);
    free(header.bytes);
    free(data.bytes);
    *output = file.bytes;
    return file.count;
}

// MARK: JPEG

size_t picture_samples_encode_jpeg(const uint8_t *pixels, uint32_t width, uint32_t height, int kind, int is_progressive,
                                   uint8_t **output) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *buffer = NULL;
    unsigned long size = 0;
    int is_printed = kind >= picture_samples_cmyk;
    memset(&jpeg, 0, sizeof jpeg);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &buffer, &size);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = is_printed ? 4 : kind == picture_samples_luminance ? 1 : 3;
    jpeg.in_color_space = is_printed ? JCS_CMYK : kind == picture_samples_luminance ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    if (kind == picture_samples_ycck) jpeg_set_colorspace(&jpeg, JCS_YCCK);
    if (is_printed) jpeg.write_Adobe_marker = TRUE;
    jpeg_set_quality(&jpeg, 90, TRUE);
    if (is_progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    uint8_t *row = malloc((size_t)width * 4);
    if (!row) abort();
    while (jpeg.next_scanline < height) {
        for (uint32_t x = 0; x < width; x++) {
            const uint8_t *pixel = pixels + ((size_t)jpeg.next_scanline * width + x) * 4;
            if (is_printed) {
                int most = pixel[0] > pixel[1] ? pixel[0] : pixel[1];
                most = pixel[2] > most ? pixel[2] : most;
                // Inverted: as much light as is left by each ink, and by black.
                for (int index = 0; index < 3; index++)
                    row[x * 4 + index] = (uint8_t)(most ? pixel[index] * 255 / most : 255);
                row[x * 4 + 3] = (uint8_t)most;
            } else if (kind == picture_samples_luminance) {
                row[x] = grey(pixel);
            } else {
                memcpy(row + x * 3, pixel, 3);
            }
        }
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *output = buffer;
    return size;
}

// MARK: WebP

size_t picture_samples_encode_webp(const uint8_t *pixels, uint32_t width, uint32_t height, int is_lossless,
                                   uint8_t **output) {
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter writer;
    WebPConfigInit(&config);
    WebPConfigLosslessPreset(&config, 0);
    config.lossless = is_lossless;
    config.method = 0;
    config.quality = is_lossless ? 0 : 85;
    WebPPictureInit(&picture);
    picture.use_argb = is_lossless;
    picture.width = (int)width;
    picture.height = (int)height;
    WebPMemoryWriterInit(&writer);
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    if (!WebPPictureImportRGBA(&picture, pixels, (int)width * 4) || !WebPEncode(&config, &picture)) abort();
    WebPPictureFree(&picture);
    *output = writer.mem;
    return writer.size;
}
